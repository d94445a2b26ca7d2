//! Pages of `irrun graph` in a headless Chromium: they are opened, and used by mouse and keys.

mod support;

use serde::Deserialize;
use std::path::PathBuf;
use std::process::Command;
use support::Room;

/// Names of the browser, the first that is there. `IRRUN_BROWSER` is another.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// In place of a network, a screen and a profile that stays.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,900",
    "--virtual-time-budget=60000",
    "--dump-dom",
];
/// Keeps what goes wrong in the script of the page.
const LISTENER: &str = "<script>window.failures = [];\
    addEventListener('error', e => window.failures.push(e.message));</script>";

/// What `visit.js` saw.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Visit {
    /// Messages of errors in the script.
    errors: Vec<String>,
    /// From the start of the page until it was drawn, in milliseconds.
    opened_ms: u64,
    /// Layers and closed blocks at first, with all blocks closed, with one of them opened by a
    /// click, and with all of them open.
    first: usize,
    closed: usize,
    opened: usize,
    open: usize,
    closed_when_open: usize,
    /// Whether the page is wider than the window.
    wider_than_window: bool,
    /// Layers that cover each other, and layers whose text leaves the box.
    covered: Vec<String>,
    cut: Vec<String>,
    /// The scale after a key and after the wheel, beside the one before both.
    nearer: f64,
    farther: f64,
    theme_changes: bool,
    keys_shown: bool,
    keys_hidden: bool,
    search_focused: bool,
    /// What a search for `matmul` finds, and how many of it are marked.
    found: String,
    marked: usize,
    /// The types of the layers picked by Enter, and of what the up arrow leads to.
    picked: Vec<String>,
    fed_by: Vec<String>,
    /// Text and histograms of the panel of the picked layer.
    panel: String,
    histograms: usize,
    panel_closed: bool,
    /// How many more layers are drawn when shape arithmetic is shown.
    with_shape_arithmetic: usize,
}

fn browser() -> PathBuf {
    if let Some(path) = std::env::var_os("IRRUN_BROWSER") {
        return path.into();
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&directories)
        .flat_map(|directory| BROWSERS.map(|name| directory.join(name)));
    places.find(|path| path.is_file()).expect("a Chromium; IRRUN_BROWSER=… names one elsewhere")
}

/// Opens the page of a model and uses it.
fn visit(model: &str, flags: &str) -> Visit {
    let room = Room::new();
    room.irrun(&format!("graph {model} {flags} -o page.html")).good();
    let page = String::from_utf8(room.read("page.html")).unwrap();
    let page = page.replacen("<head>", &format!("<head>{LISTENER}"), 1);
    let script = format!("<script>{}</script>", include_str!("browser/visit.js"));
    room.write("page.html", page.replacen("</body>", &format!("{script}</body>"), 1).as_bytes());

    let profile = format!("--user-data-dir={}", room.path("profile").display());
    let address = format!("file://{}", room.path("page.html").display());
    let run = Command::new(browser()).args(FLAGS).args([&profile, &address]).output().unwrap();
    let document = String::from_utf8_lossy(&run.stdout);
    let (_, report) = document.rsplit_once("<pre id=\"visit\">").unwrap_or_else(|| {
        panic!("{model}: the visit did not end: {}", String::from_utf8_lossy(&run.stderr))
    });
    let report = report.split("</pre>").next().unwrap();
    let report = report.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&report).unwrap()
}

/// What holds for the page of any model.
fn check(model: &str, seen: &Visit) {
    assert!(seen.errors.is_empty(), "{model}: {:?}", seen.errors);
    assert!(seen.first > 0 && !seen.wider_than_window, "{model}: {seen:?}");
    assert_eq!(seen.closed_when_open, 0, "{model}");
    assert!(seen.covered.is_empty(), "{model}: {:?}", seen.covered);
    assert!(seen.cut.is_empty(), "{model}: {:?}", seen.cut);
    assert!((seen.nearer - 1.25).abs() < 0.01 && seen.farther < seen.nearer, "{model}: {seen:?}");
    assert!(seen.theme_changes && seen.keys_shown && seen.keys_hidden, "{model}: {seen:?}");
    assert!(seen.search_focused && seen.panel_closed, "{model}: {seen:?}");
    assert_eq!(seen.found, format!("{} found", seen.marked), "{model}: {seen:?}");
}

fn of_repository(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
#[ignore = "needs Chromium: make browser"]
fn blocks_open_and_layers_are_found() {
    let model = of_repository("models/swin_block/model.xml");
    let seen = visit(&model, "");
    check(&model, &seen);
    assert!(seen.closed < seen.opened && seen.opened <= seen.open, "{seen:?}");
    assert!(seen.picked == ["MatMul"] && seen.panel.contains("Inputs"), "{seen:?}");
    assert!(seen.histograms > 0, "weights have one: {}", seen.panel);
    assert!(seen.fed_by.len() == 1 && seen.fed_by != seen.picked, "{seen:?}");
}

#[test]
#[ignore = "needs Chromium: make browser"]
fn shape_arithmetic_is_shown_by_a_key() {
    let model = of_repository("models/tiny_llama");
    let seen = visit(&model, "");
    check(&model, &seen);
    assert!(seen.with_shape_arithmetic > 10, "{seen:?}");
}

#[test]
#[ignore = "needs Chromium: make browser"]
fn plans_and_bodies_are_pages_too() {
    let model = of_repository("models/swin_block/model.xml");
    check(&model, &visit(&model, "--plan"));
    let model = of_repository("fixtures/loop_with_scan/model.xml");
    check(&model, &visit(&model, ""));
}

/// The page of a model of one's own: `make browser MODEL=…`, which also tells how long it took to
/// open.
#[test]
#[ignore = "needs Chromium: make browser"]
fn the_page_of_a_given_model_works() {
    if let Ok(model) = std::env::var("PAGE_MODEL") {
        let seen = visit(&model, "");
        println!("{model}: {} layers, opened in {} ms", seen.open, seen.opened_ms);
        check(&model, &seen);
    }
}
