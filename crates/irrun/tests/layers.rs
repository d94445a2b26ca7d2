//! The layers of each crate, as `docs/architecture.md` draws them: no module uses one of a layer
//! above its own, and no modules use each other in a circle.
//!
//! Paths are read from the source text. A name that a module re-exports counts as the module that
//! defines it, so a facade hides no arrow. Modules of tests may use what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The layers of a crate from the lowest to the highest, each as its modules of the first level.
struct Layers {
    name: &'static str,
    layers: &'static [&'static [&'static str]],
    /// Modules that are not looked at yet.
    unsettled: &'static [&'static str],
}

const KERNELS: Layers = Layers {
    name: "kernels",
    layers: &[
        &["base"],
        &["math"],
        &["movement", "search"],
        &["reduce"],
        &["gemm"],
        &["nn"],
        &["conv"],
        &["quantized"],
        &["vision", "signal", "random"],
    ],
    unsettled: &[],
};

const IR: Layers = Layers {
    name: "ir",
    layers: &[
        &["element", "text"],
        &["weights", "diagnostic"],
        &["graph"],
        &["topology"],
        &["legacy"],
        &["build", "read", "write"],
    ],
    unsettled: &[],
};

const INFER: Layers = Layers {
    name: "infer",
    layers: &[
        &["lattice"],
        &["fact"],
        &["rule"],
        &["rules"],
        &["ops"],
        &["table"],
        &["extensions"],
        &["propagate"],
    ],
    unsettled: &[],
};

const RUNTIME: Layers = Layers {
    name: "runtime",
    layers: &[
        &["error", "limits", "options"],
        &["tensor"],
        &["memory"],
        &["kernel"],
        &["graph"],
        &["ops"],
        &["fused"],
        &["passes"],
        &["plan"],
        &["session"],
    ],
    unsettled: &[],
};

const TOKENIZE: Layers = Layers {
    name: "tokenize",
    layers: &[
        &["error", "hash", "number"],
        &["bytes", "trie"],
        &["strings", "unicode", "regex"],
        &["ragged", "vocab", "split", "charsmap"],
        &["bpe", "unigram", "wordpiece"],
        &["sentencepiece"],
    ],
    unsettled: &[],
};

const TEXT: Layers = Layers {
    name: "text",
    layers: &[
        &["error", "edit", "stop"],
        &["config", "model", "decoder"],
        &["chat", "sampler"],
        &["tokenizer", "language_model"],
        &["pipeline"],
    ],
    unsettled: &[],
};

#[test]
fn kernels() {
    check(&KERNELS);
}

#[test]
fn ir() {
    check(&IR);
}

#[test]
fn infer() {
    check(&INFER);
}

#[test]
fn runtime() {
    check(&RUNTIME);
}

#[test]
fn tokenize() {
    check(&TOKENIZE);
}

#[test]
fn text() {
    check(&TEXT);
}

#[test]
fn the_picture_shows_every_layer() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let picture = std::fs::read_to_string(docs.join("layers.svg")).unwrap();
    let named = |layers: &Layers| layers.layers.concat();
    for module in [IR, INFER, RUNTIME, KERNELS, TOKENIZE, TEXT].iter().flat_map(named) {
        let is_there = picture.contains(&format!(">{module}</tspan>"));
        assert!(is_there, "{module} is not in docs/layers.svg; run docs/layers.py");
    }
}

/// Fails with every arrow upwards and every circle.
fn check(layers: &Layers) {
    let modules = Modules::of(layers.name);
    let arrows = modules.arrows();
    let first = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let is_settled = |module: &&str| !layers.unsettled.contains(&first(module).as_str());
    let arrows: BTreeMap<&str, BTreeSet<&str>> = arrows
        .into_iter()
        .filter(|(from, _)| is_settled(from))
        .map(|(from, to)| (from, to.into_iter().filter(is_settled).collect()))
        .collect();
    let level = |module: &str| {
        let first = first(module);
        layers.layers.iter().position(|names| names.contains(&first.as_str()))
    };
    let mut findings = Vec::new();
    for (from, to) in arrows.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
        match (level(from), level(to)) {
            (Some(low), Some(high)) if low < high => findings.push(format!("{from} uses {to}")),
            (None, _) if !from.is_empty() => findings.push(format!("{from} is in no layer")),
            _ => {}
        }
    }
    for circle in circles(&arrows) {
        let inside = |from: &&str| {
            let to = arrows[from].iter().filter(|to| circle.contains(to));
            format!("{from} -> {}", to.copied().collect::<Vec<_>>().join(", "))
        };
        let lines: Vec<String> = circle.iter().map(inside).collect();
        findings.push(format!("a circle:\n    {}", lines.join("\n    ")));
    }
    findings.sort();
    findings.dedup();
    assert!(findings.is_empty(), "crates/{}/src:\n  {}", layers.name, findings.join("\n  "));
}

/// The modules of a crate by their paths (`movement::roll`; the root is empty).
struct Modules {
    by_path: BTreeMap<String, Module>,
}

/// What the text of a module says.
#[derive(Default)]
struct Module {
    /// Paths with at least one `::`, in the order of the text.
    paths: Vec<Vec<String>>,
    /// Names that the module imports or re-exports, with their paths.
    names: BTreeMap<String, Vec<String>>,
    /// Macros that it defines.
    macros: BTreeSet<String>,
}

impl Modules {
    fn of(name: &str) -> Modules {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut by_path = BTreeMap::new();
        let mut folders = vec![src.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Some(module) = module_path(&src, &path) {
                    by_path.insert(module, Module::read(&std::fs::read_to_string(&path).unwrap()));
                }
            }
        }
        Modules { by_path }
    }

    /// For each module those that it uses.
    fn arrows(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let uses = |(own, module): (&'_ String, &Module)| {
            let found = module.paths.iter().filter_map(|path| self.resolve(own, path, 0));
            found.filter(|to| to != own).collect()
        };
        self.by_path.iter().map(|m| (m.0.as_str(), uses(m))).collect()
    }

    /// The module that defines what a path in module `own` names.
    fn resolve<'m>(&'m self, own: &str, path: &[String], depth: usize) -> Option<&'m str> {
        let mut at: Vec<&str> = own.split("::").filter(|s| !s.is_empty()).collect();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()?),
            first => {
                at.push(first);
                self.by_path.get(&at.join("::"))?;
            }
        }
        rest = &rest[1..];
        while let Some(next) = rest.first() {
            match next.as_str() {
                "super" => drop(at.pop()?),
                next => {
                    at.push(next);
                    if !self.by_path.contains_key(&at.join("::")) {
                        at.pop();
                        break;
                    }
                }
            }
            rest = &rest[1..];
        }
        let (module, text) = self.by_path.get_key_value(&at.join("::"))?;
        let Some(name) = rest.first() else { return Some(module) };
        if let Some(real) = text.names.get(name).filter(|_| depth < 8) {
            let whole = [real, &rest[1..]].concat();
            return self.resolve(module, &whole, depth + 1).or(Some(module));
        }
        let defines = |m: &(&'m String, &Module)| m.1.macros.contains(name);
        if module.is_empty() {
            return self.by_path.iter().find(defines).map(|m| m.0.as_str());
        }
        Some(module)
    }
}

impl Module {
    fn read(text: &str) -> Module {
        let tokens = tokens(text);
        let mut module = Module::default();
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at] == "macro_rules" {
                module.macros.extend(tokens.get(at + 2).cloned());
            }
            let is_use = at > 0 && tokens[at - 1] == "use";
            // A module that hands on what another defines does not need it.
            let is_export = is_use && at > 1 && matches!(tokens[at - 2].as_str(), "pub" | ")");
            if !is_name(&tokens[at]) || (at > 0 && tokens[at - 1] == "::") {
                at += 1;
                continue;
            }
            let mut found = Vec::new();
            at = tree(&tokens, at, &mut Vec::new(), &mut found);
            for (path, name) in found {
                if is_use && name != "*" {
                    module.names.insert(name, path.clone());
                }
                if path.len() > 1 && !is_export {
                    module.paths.push(path);
                }
            }
        }
        module
    }
}

/// The paths of a tree such as `a::{b, c::d as e}` from a token on, each with the name that it is
/// imported by. Returns the place behind the tree.
fn tree(
    tokens: &[String],
    mut at: usize,
    before: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, String)>,
) -> usize {
    let len = before.len();
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    loop {
        match token(at) {
            "{" => {
                at += 1;
                while at < tokens.len() && token(at) != "}" {
                    at = if token(at) == "," { at + 1 } else { tree(tokens, at, before, found) };
                }
                before.truncate(len);
                return at + 1;
            }
            // What a name means is not changed by `self` behind it.
            "self" if !before.is_empty() => {}
            "*" => {}
            name => before.push(name.to_owned()),
        }
        let is_glob = token(at) == "*";
        at += 1;
        if token(at) == "::" && (is_name(token(at + 1)) || matches!(token(at + 1), "{" | "*")) {
            at += 1;
            continue;
        }
        let mut name =
            if is_glob { "*".to_owned() } else { before.last().cloned().unwrap_or_default() };
        if token(at) == "as" {
            name = token(at + 1).to_owned();
            at += 2;
        }
        found.push((before.clone(), name));
        before.truncate(len);
        return at;
    }
}

/// Names and signs of a text without its comments, strings and tests.
fn tokens(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if c == '"' {
            string(rest)
        } else if c.is_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(rest[..end].to_owned());
            end
        } else {
            let len = if rest.starts_with("::") { 2 } else { c.len_utf8() };
            if !c.is_whitespace() {
                tokens.push(rest[..len].to_owned());
            }
            len
        };
        rest = &rest[len..];
    }
    tokens
}

/// Bytes of the string that a text begins with. A character `'"'` reads as one, which does no harm
/// as long as the next is as far.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return i + 1,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    text.len()
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_') && token != "use" && token != "as"
}

/// The path of the module in a file, unless it is one of tests.
fn module_path(src: &Path, file: &Path) -> Option<String> {
    let relative = file.strip_prefix(src).unwrap().with_extension("");
    if file.extension()? != "rs" {
        return None;
    }
    let mut names: Vec<String> =
        relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if names.iter().any(|name| name == "tests" || name == "testing") {
        return None;
    }
    if names.last().is_some_and(|name| name == "mod" || name == "lib" || name == "main") {
        names.pop();
    }
    Some(names.join("::"))
}

/// Sets of modules that all reach each other.
fn circles<'m>(arrows: &BTreeMap<&'m str, BTreeSet<&'m str>>) -> Vec<Vec<&'m str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|m| (*m, reached(arrows, m))).collect();
    let in_circle = |a: &&str, b: &&str| reach[a].contains(b) && reach[b].contains(a);
    let mut circles: Vec<Vec<&str>> = Vec::new();
    for module in arrows.keys().filter(|m| reach[*m].contains(*m)) {
        match circles.iter_mut().find(|circle| in_circle(&circle[0], module)) {
            Some(circle) => circle.push(module),
            None => circles.push(vec![module]),
        }
    }
    circles
}

/// All that a module uses, and what that uses.
fn reached<'m>(arrows: &BTreeMap<&'m str, BTreeSet<&'m str>>, from: &str) -> BTreeSet<&'m str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(module) = open.pop() {
        for next in arrows.get(module).into_iter().flatten() {
            if reached.insert(*next) {
                open.push(next);
            }
        }
    }
    reached
}
