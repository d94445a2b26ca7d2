/* OpenVINO as a C program uses it, f32 on two threads.
 *   ov_run read MODEL.xml                         prints the milliseconds of read_model
 *   ov_run run|static MODEL.xml DIR INPUT.npy...  runs once and writes DIR/<i>.raw for each output
 * `run` compiles the model as it is; `static` reshapes it to the inputs first. */
#include <fcntl.h>
#include <openvino/c/openvino.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST 8 /* inputs, and dimensions of one */

static void try(int failed, const char *what) {
    if (!failed) return;
    fprintf(stderr, "ov_run: %s: %s\n", what, ov_get_last_err_msg());
    exit(1);
}

static ov_element_type_e element_type(const char *header) {
    static const struct { const char *code; ov_element_type_e type; } known[] = {
        {"<f4'", F32}, {"<i8'", I64}, {"<i4'", I32}, {"<f2'", F16}, {"|u1'", U8}, {"|b1'", BOOLEAN}, {"<f8'", F64}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(header, known[i].code)) return known[i].type;
    try(1, "element type of an input");
    return F32;
}

/* A tensor over a mapped .npy of version 1. */
static ov_tensor_t *load(const char *path, ov_shape_t *shape) {
    struct stat stat;
    int file = open(path, O_RDONLY);
    try(file < 0 || fstat(file, &stat), path);
    unsigned char *bytes = mmap(NULL, stat.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    try(bytes == MAP_FAILED, path);
    size_t start = 10 + bytes[8] + 256 * bytes[9];
    char header[512] = {0};
    memcpy(header, bytes + 10, start - 10 < 511 ? start - 10 : 511);
    int64_t dims[MOST], rank = 0;
    for (char *at = strchr(header, '(') + 1; rank < MOST;) {
        char *next;
        int64_t dim = strtoll(at, &next, 10);
        if (next == at) break;
        dims[rank++] = dim;
        at = next + strspn(next, ", ");
    }
    ov_tensor_t *tensor;
    try(ov_shape_create(rank, dims, shape), "shape");
    try(ov_tensor_create_from_host_ptr(element_type(header), *shape, bytes + start, &tensor), path);
    return tensor;
}

static void reshape(ov_model_t *model, const ov_shape_t *shapes, size_t inputs) {
    ov_partial_shape_t partial[MOST];
    size_t ports[MOST];
    for (size_t i = 0; i < inputs; i++) {
        ports[i] = i;
        try(ov_partial_shape_create_static(shapes[i].rank, shapes[i].dims, partial + i), "shape");
    }
    try(ov_model_reshape_by_port_indexes(model, ports, partial, inputs), "reshape");
}

static void store(const char *dir, size_t index, const ov_tensor_t *tensor) {
    char path[4096];
    void *data;
    size_t size;
    try(ov_tensor_data(tensor, &data) || ov_tensor_get_byte_size(tensor, &size), "output");
    snprintf(path, sizeof path, "%s/%zu.raw", dir, index);
    FILE *file = fopen(path, "wb");
    try(!file || fwrite(data, 1, size, file) != size || fclose(file), path);
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4 + MOST) return 2;
    ov_core_t *core;
    ov_model_t *model;
    struct timespec start, end;
    try(ov_core_create(&core), "core");
    clock_gettime(CLOCK_MONOTONIC, &start);
    try(ov_core_read_model(core, argv[2], NULL, &model), "read_model");
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (!strcmp(argv[1], "read")) {
        printf("%.3f\n", (end.tv_sec - start.tv_sec) * 1e3 + (end.tv_nsec - start.tv_nsec) / 1e6);
        return 0;
    }
    size_t inputs = argc - 4, outputs;
    ov_tensor_t *tensors[MOST], *output;
    ov_shape_t shapes[MOST];
    for (size_t i = 0; i < inputs; i++) tensors[i] = load(argv[4 + i], shapes + i);
    if (!strcmp(argv[1], "static")) reshape(model, shapes, inputs);
    ov_compiled_model_t *compiled;
    ov_infer_request_t *request;
    try(ov_core_compile_model(core, model, "CPU", 12, &compiled, "INFERENCE_PRECISION_HINT", "f32",
                              "INFERENCE_NUM_THREADS", "2", "NUM_STREAMS", "1", "PERFORMANCE_HINT", "LATENCY",
                              "KV_CACHE_PRECISION", "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE", "0"), "compile_model");
    try(ov_compiled_model_create_infer_request(compiled, &request), "infer_request");
    for (size_t i = 0; i < inputs; i++)
        try(ov_infer_request_set_input_tensor_by_index(request, i, tensors[i]), "input");
    try(ov_infer_request_infer(request), "infer");
    try(ov_compiled_model_outputs_size(compiled, &outputs), "outputs");
    for (size_t i = 0; i < outputs; i++) {
        try(ov_infer_request_get_output_tensor_by_index(request, i, &output), "output");
        store(argv[3], i, output);
    }
    return 0;
}
