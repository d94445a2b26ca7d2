//! What OpenVINO GenAI generates with `models/tiny_llama`, in f32.

use irrun_text::{Finish, GenerationConfig, Message, Pipeline};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny_llama");

fn open(threads: usize) -> Pipeline {
    let threads = Arc::new(runtime::Threads::new(threads));
    Pipeline::open_with(Path::new(DIR), &runtime::Options::default(), &threads).unwrap()
}

fn golden() -> Vec<Value> {
    let file = std::fs::read(Path::new(DIR).join("golden.json")).unwrap();
    serde_json::from_slice(&file).unwrap()
}

fn ids(value: &Value) -> Vec<i64> {
    value.as_array().map(|all| all.iter().filter_map(Value::as_i64).collect()).unwrap_or_default()
}

fn config_of(case: &Value, own: &GenerationConfig) -> GenerationConfig {
    let strings = case["stop_strings"].as_array().into_iter().flatten();
    let mut config = own.clone();
    config.max_new_tokens = Some(case["max_new_tokens"].as_u64().unwrap_or(24) as usize);
    config.repetition_penalty = case["repetition_penalty"].as_f64().unwrap_or(1.0) as f32;
    config.stop_strings = strings.filter_map(Value::as_str).map(str::to_owned).collect();
    config.stop_token_ids.extend(ids(&case["stop_token_ids"]));
    config
}

#[test]
fn tokens_and_text_are_those_of_openvino_genai() {
    for threads in [1, 3] {
        let mut pipeline = open(threads);
        for case in golden() {
            let prompt = case["prompt"].as_str().unwrap();
            let tokens = match case["chat"].as_bool() {
                Some(true) => pipeline.encode_chat(&[Message::new("user", prompt)]).unwrap(),
                _ => pipeline.encode(prompt, true).unwrap(),
            };
            assert_eq!(tokens, ids(&case["prompt_tokens"]), "{prompt}");
            let config = config_of(&case, pipeline.config());
            let mut heard = String::new();
            let mut listener = |text: &str| {
                heard.push_str(text);
                ControlFlow::Continue(())
            };
            let generated = pipeline.generate(&tokens, &config, &mut listener).unwrap();
            assert_eq!(generated.tokens, ids(&case["tokens"]), "{prompt} on {threads} threads");
            assert_eq!(heard, generated.text, "{prompt}");
            let stops = case.get("stop_strings").or(case.get("stop_token_ids")).is_some();
            assert_eq!(generated.finish, if stops { Finish::Stop } else { Finish::Length });
            if config.stop_strings.is_empty() {
                assert_eq!(generated.text, case["text"].as_str().unwrap());
            }
        }
    }
}

#[test]
fn a_longer_prompt_goes_on_where_the_last_one_ended() {
    let case = &golden()[0];
    let (prompt, expected) = (ids(&case["prompt_tokens"]), ids(&case["tokens"]));
    let mut pipeline = open(2);
    let config = |n| GenerationConfig { max_new_tokens: Some(n), ..GenerationConfig::default() };
    let mut quiet = |_: &str| ControlFlow::Continue(());
    let first = pipeline.generate(&prompt, &config(10), &mut quiet).unwrap();
    assert_eq!(first.tokens, expected[..10]);
    let longer = [prompt.clone(), first.tokens].concat();
    assert_eq!(pipeline.generate(&longer, &config(14), &mut quiet).unwrap().tokens, expected[10..]);
    // Another prompt starts from an empty cache.
    assert_eq!(pipeline.generate(&prompt, &config(24), &mut quiet).unwrap().tokens, expected);
}

#[test]
fn a_listener_may_end_it() {
    let mut pipeline = open(2);
    let config = pipeline.config().clone();
    let prompt = pipeline.encode("The model reads a file", true).unwrap();
    let generated = pipeline.generate(&prompt, &config, &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!((generated.finish, generated.text.as_str()), (Finish::Cancelled, "ha"));
}

#[test]
fn drawn_tokens_are_the_same_on_any_number_of_threads() {
    let config = GenerationConfig {
        do_sample: true,
        temperature: 3.0,
        top_k: 50,
        top_p: 0.95,
        seed: 7,
        max_new_tokens: Some(20),
        ..GenerationConfig::default()
    };
    let mut quiet = |_: &str| ControlFlow::Continue(());
    let mut drawn = [1, 2, 3].map(|threads| {
        let mut pipeline = open(threads);
        let prompt = pipeline.encode("The", true).unwrap();
        pipeline.generate(&prompt, &config, &mut quiet).unwrap().tokens
    });
    assert_eq!(drawn[0], drawn[1]);
    drawn.reverse();
    assert_eq!(drawn[0], drawn[1]);
}
