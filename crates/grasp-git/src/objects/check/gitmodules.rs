//! The content of a `.gitmodules` file: names, URLs and paths that have been used to attack readers.

use super::Finding;

/// Longer files are refused: nobody writes them by hand, and readers load them whole.
pub(crate) const LEN_MAX: usize = 4 << 20;

/// Checks every submodule of the file. A file that is no configuration harms nobody.
pub(crate) fn check_gitmodules(data: &[u8]) -> Result<(), Finding> {
    if data.len() > LEN_MAX {
        return Err("a '.gitmodules' of more than 4 MiB");
    }
    let mut section: Option<Vec<u8>> = None;
    let mut lines = Lines { rest: data };
    while let Some(line) = lines.next_line() {
        let mut line = line.as_slice().trim_ascii();
        if let Some(header) = line.strip_prefix(b"[") {
            let (name, rest) = parse_section(header);
            if let Some(name) = &name {
                check_name(name)?;
            }
            section = name;
            line = rest.trim_ascii();
        }
        if section.is_some() && !line.is_empty() && !line.starts_with(b"#") {
            check_setting(line)?;
        }
    }
    Ok(())
}

/// Lines, with those that end in a backslash joined to the next.
struct Lines<'a> {
    rest: &'a [u8],
}

impl Lines<'_> {
    fn next_line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|byte| *byte == b'\n');
            let (part, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest.get(1..).unwrap_or_default();
            let part = part.strip_suffix(b"\r").unwrap_or(part);
            let Some(begun) = part.strip_suffix(b"\\") else {
                line.extend_from_slice(part);
                return Some(line);
            };
            line.extend_from_slice(begun);
        }
        (!line.is_empty()).then_some(line)
    }
}

/// The name in `submodule "<name>"]`, and what follows on the line. `None` for any other section.
fn parse_section(header: &[u8]) -> (Option<Vec<u8>>, &[u8]) {
    let quote = header.iter().position(|byte| matches!(byte, b'"' | b']'));
    let Some(at) = quote.filter(|at| header[*at] == b'"') else {
        let end = quote.map_or(header.len(), |at| at + 1);
        // The old form: `[submodule.name]`.
        let old = header[..end.saturating_sub(1)].split_at_checked(10);
        let name = old.filter(|(word, _)| word.eq_ignore_ascii_case(b"submodule."));
        return (name.map(|(_, name)| name.to_vec()), &header[end..]);
    };
    let is_submodule = header[..at].trim_ascii().eq_ignore_ascii_case(b"submodule");
    let mut name = Vec::new();
    let mut rest = &header[at + 1..];
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => break,
            b'\\' => {
                let Some((byte, after)) = rest.split_first() else {
                    break;
                };
                name.push(*byte);
                rest = after;
            }
            byte => name.push(*byte),
        }
    }
    let rest = rest.strip_prefix(b"]").unwrap_or(rest);
    (is_submodule.then_some(name), rest)
}

fn check_setting(line: &[u8]) -> Result<(), Finding> {
    let Some(equals) = line.iter().position(|byte| *byte == b'=') else {
        return Ok(());
    };
    let key = line[..equals].trim_ascii().to_ascii_lowercase();
    let value = parse_value(line[equals + 1..].trim_ascii());
    match key.as_slice() {
        b"url" => check_url(&value),
        b"path" if value.starts_with(b"-") => Err("a submodule path that looks like an option"),
        b"update" if value.starts_with(b"!") => Err("a submodule that runs a command"),
        _ => Ok(()),
    }
}

/// Takes quotes and escapes off, and a comment at the end.
fn parse_value(raw: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(raw.len());
    let mut quoted = false;
    let mut bytes = raw.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => quoted = !quoted,
            b'#' | b';' if !quoted => break,
            b'\\' => match bytes.next() {
                Some(b'n') => value.push(b'\n'),
                Some(b't') => value.push(b'\t'),
                Some(byte) => value.push(*byte),
                None => {}
            },
            byte => value.push(*byte),
        }
    }
    value.truncate(value.trim_ascii_end().len());
    value
}

/// The name becomes a folder below `.git/modules`.
fn check_name(name: &[u8]) -> Result<(), Finding> {
    let climbs = name
        .split(|byte| matches!(byte, b'/' | b'\\'))
        .any(|part| part == b"..");
    if name.is_empty() || climbs {
        return Err("a submodule name that leaves its folder");
    }
    Ok(())
}

fn check_url(url: &[u8]) -> Result<(), Finding> {
    const BAD: Finding = "a submodule URL that some git would misread";
    if url.starts_with(b"-") {
        return Err("a submodule URL that looks like an option");
    }
    let is_relative = url.starts_with(b"./") || url.starts_with(b"../");
    let scheme = |scheme: &[u8]| {
        url.split_at_checked(scheme.len())
            .filter(|(head, _)| head.eq_ignore_ascii_case(scheme))
            .map(|(_, rest)| rest)
    };
    let curl = [b"http://".as_slice(), b"https://", b"ftp://", b"ftps://"]
        .iter()
        .find_map(|name| scheme(name));
    let helper = [b"http::".as_slice(), b"https::", b"ftp::", b"ftps::"]
        .iter()
        .any(|name| scheme(name).is_some());
    let is_decoded = is_relative || curl.is_some() || helper || scheme(b"git://").is_some();
    if is_decoded && decode(url).contains(&b'\n') {
        return Err(BAD);
    }
    if curl.is_some_and(|rest| matches!(rest.first(), None | Some(b'/' | b':' | b'?' | b'#'))) {
        return Err(BAD);
    }
    if is_relative && climbs_into_host(url) {
        return Err(BAD);
    }
    Ok(())
}

/// `../../:host/x` and `..//host`: joined to a URL they overwrite its host.
fn climbs_into_host(url: &[u8]) -> bool {
    let mut rest = url;
    let mut climbed = false;
    loop {
        if let Some(after) = rest.strip_prefix(b"../") {
            climbed = true;
            rest = after;
        } else if let Some(after) = rest.strip_prefix(b"./") {
            rest = after;
        } else {
            return climbed && matches!(rest.first(), Some(b':' | b'/'));
        }
    }
}

fn decode(url: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(url.len());
    let mut at = 0;
    while at < url.len() {
        let hex = url.get(at + 1..at + 3).filter(|_| url[at] == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        out.push(byte.unwrap_or(url[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    out
}
