//! The paths in source files, token by token: macros and expressions are treated like imports.
#![expect(clippy::disallowed_methods, reason = "reads sources, not a store")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The names of a module's folders, then its own name; empty for the root.
type Module = Vec<String>;

/// The modules of a crate, without those that only exist in tests.
pub struct Sources {
    files: BTreeMap<Module, File>,
}

struct File {
    name: String,
    paths: Vec<Named>,
    /// The names that it re-exports, with their origins.
    exports: BTreeMap<String, Module>,
}

/// A path in a module, from the crate's root.
struct Named {
    from: Module,
    to: Module,
    text: String,
}

/// A path from a module to another one.
pub struct Arrow<'a> {
    pub file: &'a str,
    pub from: Module,
    pub to: Module,
    pub text: &'a str,
}

impl Sources {
    /// Reads all files below a folder.
    pub fn read(root: &Path) -> Self {
        let mut texts = Vec::new();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                    texts.push((name, fs::read_to_string(&path).unwrap()));
                }
            }
        }
        Self::of(texts.iter().map(|(name, text)| (name.as_str(), text.as_str())))
    }

    /// Sources from these texts.
    pub fn of<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut files = BTreeMap::new();
        let mut only_in_tests = BTreeSet::new();
        for (name, text) in texts {
            let mut module: Module = name.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            module.pop_if(|last| matches!(last.as_str(), "mod" | "lib"));
            let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut reader =
                Reader { paths: Vec::new(), exports: BTreeMap::new(), only_in_tests: &mut only_in_tests };
            reader.read(&tokens.into_iter().collect::<Vec<_>>(), &module);
            let Reader { paths, exports, .. } = reader;
            files.insert(module, File { name: name.to_owned(), paths, exports });
        }
        files.retain(|module, _| !only_in_tests.iter().any(|test: &Module| module.starts_with(test)));
        Self { files }
    }

    /// The modules that have a file.
    pub fn modules(&self) -> impl Iterator<Item = &Module> {
        self.files.keys()
    }

    /// Every path that leads to another module.
    pub fn arrows(&self) -> impl Iterator<Item = Arrow<'_>> {
        self.files.iter().filter(|(module, _)| !module.is_empty()).flat_map(|(_, file)| {
            file.paths.iter().map(|named| Arrow {
                file: &file.name,
                from: named.from.clone(),
                to: self.resolve(&named.to, 0),
                text: &named.text,
            })
        })
    }

    /// The module that defines the item of a path, after re-exports are followed.
    fn resolve(&self, path: &[String], depth: usize) -> Module {
        assert!(depth < 32, "{path:?} is re-exported in a circle");
        let mut module = Module::new();
        for (at, name) in path.iter().enumerate() {
            let mut child = module.clone();
            child.push(name.clone());
            if self.files.contains_key(&child) {
                module = child;
                continue;
            }
            let exports = self.files.get(&module).map(|file| &file.exports);
            if let Some(target) = exports.and_then(|exports| exports.get(name)) {
                let target = [&target[..], &path[at + 1..]].concat();
                return self.resolve(&target, depth + 1);
            }
            break;
        }
        module
    }
}

struct Reader<'a> {
    paths: Vec<Named>,
    exports: BTreeMap<String, Module>,
    only_in_tests: &'a mut BTreeSet<Module>,
}

impl Reader<'_> {
    fn read(&mut self, tokens: &[TokenTree], module: &Module) {
        let mut at = 0;
        while at < tokens.len() {
            if let Some(after) = attribute(tokens, at) {
                if !is_for_tests(&tokens[at + 1]) {
                    at = after;
                    continue;
                }
                at = self.skip_item(tokens, after, module);
                continue;
            }
            match &tokens[at] {
                TokenTree::Ident(word) if word == "mod" && is_inline_module(tokens, at) => {
                    let inner = [&module[..], &[tokens[at + 1].to_string()]].concat();
                    if let TokenTree::Group(body) = &tokens[at + 2] {
                        self.read(&body.stream().into_iter().collect::<Vec<_>>(), &inner);
                    }
                    at += 3;
                }
                TokenTree::Ident(word) if word == "use" => {
                    let end =
                        (at..tokens.len()).find(|&end| is_punct(&tokens[end], ';')).unwrap_or(tokens.len());
                    let is_public = is_public(tokens, at);
                    self.read_use(&tokens[at + 1..end], module, is_public);
                    at = end;
                }
                TokenTree::Ident(word) if is_root(&word.to_string()) && is_double_colon(tokens, at + 1) => {
                    let (path, next) = path_from(tokens, at);
                    self.note(module, path);
                    at = next;
                }
                TokenTree::Group(group) => {
                    self.read(&group.stream().into_iter().collect::<Vec<_>>(), module);
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// The index after an item that only exists in tests, and after its further attributes.
    fn skip_item(&mut self, tokens: &[TokenTree], mut at: usize, module: &Module) -> usize {
        while let Some(after) = attribute(tokens, at) {
            at = after;
        }
        let mut is_statement = false;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(word) if word == "mod" => {
                    self.only_in_tests.insert([&module[..], &[tokens[at + 1].to_string()]].concat());
                }
                // Items that may have braces before their semicolon.
                TokenTree::Ident(word)
                    if ["use", "let", "static", "const", "type"].contains(&&*word.to_string()) =>
                {
                    is_statement = tokens.get(at + 1).is_none_or(|next| next.to_string() != "fn");
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => return at + 1,
                // The end of a field or an argument.
                TokenTree::Punct(punct) if punct.as_char() == ',' && !is_statement => return at + 1,
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !is_statement => {
                    return at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        at
    }

    fn read_use(&mut self, tokens: &[TokenTree], module: &Module, is_public: bool) {
        let mut leaves = Vec::new();
        use_leaves(tokens, &Vec::new(), &mut leaves);
        for (path, name) in leaves {
            let begins_at_root = path.first().is_some_and(|first| is_root(first));
            if begins_at_root {
                self.note(module, path.clone());
            }
            if is_public {
                // A path without a root begins with a module of this one.
                let target =
                    if begins_at_root { absolute(module, &path) } else { [&module[..], &path[..]].concat() };
                self.exports.insert(name, target);
            }
        }
    }

    fn note(&mut self, module: &Module, path: Vec<String>) {
        let (to, text) = (absolute(module, &path), path.join("::"));
        self.paths.push(Named { from: module.clone(), to, text });
    }
}

/// The paths of an import tree, each with the name that it binds.
fn use_leaves(tokens: &[TokenTree], before: &[String], leaves: &mut Vec<(Vec<String>, String)>) {
    for part in tokens.split(|token| is_punct(token, ',')) {
        let mut path = before.to_vec();
        let mut at = 0;
        let mut name = None;
        let mut is_tree = false;
        while at < part.len() {
            match &part[at] {
                TokenTree::Ident(word) if word == "as" => {
                    name = part.get(at + 1).map(ToString::to_string);
                    break;
                }
                TokenTree::Ident(word) if word == "self" && !path.is_empty() && path != ["self"] => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    is_tree = true;
                    use_leaves(&group.stream().into_iter().collect::<Vec<_>>(), &path, leaves);
                }
                _ => {}
            }
            at += 1;
        }
        if !is_tree && path.len() > before.len() || !is_tree && !part.is_empty() && part.len() < 4 {
            let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
            leaves.push((path, name));
        }
    }
}

/// A path from `tokens[at]` on, and the index of its end.
fn path_from(tokens: &[TokenTree], mut at: usize) -> (Vec<String>, usize) {
    let mut path = vec![tokens[at].to_string()];
    at += 1;
    while is_double_colon(tokens, at) {
        match tokens.get(at + 2) {
            Some(TokenTree::Ident(word)) => path.push(word.to_string()),
            _ => break,
        }
        at += 3;
    }
    (path, at)
}

/// A path in `module`, from the crate's root.
fn absolute(module: &Module, path: &[String]) -> Module {
    let mut absolute = module.clone();
    for (at, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" if at == 0 => absolute.clear(),
            "self" if at == 0 => {}
            "super" => {
                absolute.pop();
            }
            _ => absolute.push(name.clone()),
        }
    }
    absolute
}

/// The index after an attribute that begins at `at`.
fn attribute(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let is_group = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket);
    (is_punct(tokens.get(at)?, '#') && is_group(tokens.get(at + 1)?)).then_some(at + 2)
}

fn is_for_tests(attribute: &TokenTree) -> bool {
    let text = attribute.to_string().replace(' ', "");
    ["[test]", "[cfg(test)]", "[cfg(doctest)]"].contains(&&*text) || text.starts_with("[cfg(all(test,")
}

fn is_inline_module(tokens: &[TokenTree], at: usize) -> bool {
    matches!(tokens.get(at + 1), Some(TokenTree::Ident(_)))
        && matches!(tokens.get(at + 2), Some(TokenTree::Group(_)))
}

fn is_public(tokens: &[TokenTree], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|at| &tokens[at]);
    let is_pub = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "pub");
    before(1).is_some_and(is_pub)
        || before(1).is_some_and(|token| matches!(token, TokenTree::Group(_)))
            && before(2).is_some_and(is_pub)
}

fn is_root(name: &str) -> bool {
    ["crate", "super", "self"].contains(&name)
}

fn is_double_colon(tokens: &[TokenTree], at: usize) -> bool {
    [at, at + 1].into_iter().all(|at| tokens.get(at).is_some_and(|token| is_punct(token, ':')))
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}
