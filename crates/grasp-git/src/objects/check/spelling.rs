//! Which names some file system takes for `.git`, `.gitmodules` or `.gitattributes`.
//!
//! HFS+ passes over certain invisible characters and folds case; NTFS drops trailing blanks and dots,
//! cuts at a colon, and has a short name for each long one. A repository is read on all of them.

/// Whether a checkout of `name` may land in `.git`.
pub(super) fn is_git(name: &[u8]) -> bool {
    is_hfs(name, b".git") || after_backslashes(name).any(is_ntfs_git)
}

/// Whether `name` may be read as `.gitmodules`.
pub(super) fn is_gitmodules(name: &[u8]) -> bool {
    is_hfs(name, b".gitmodules")
        || after_backslashes(name).any(|part| is_ntfs(part, b"gitmodules", *b"gi7eba"))
}

/// Whether `name` may be read as `.gitattributes`.
pub(super) fn is_gitattributes(name: &[u8]) -> bool {
    is_hfs(name, b".gitattributes")
        || after_backslashes(name).any(|part| is_ntfs(part, b"gitattributes", *b"gi7d29"))
}

/// The name, and what stands after each backslash: Windows takes those for folders.
fn after_backslashes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = name.iter().enumerate().filter(|(_, byte)| **byte == b'\\');
    std::iter::once(name).chain(starts.map(|(at, _)| &name[at + 1..]))
}

fn is_hfs(name: &[u8], wanted: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else {
        return false;
    };
    let invisible = |c: &char| {
        matches!(c,
            '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
    };
    let visible = name.chars().filter(|c| !invisible(c));
    visible
        .map(|c| c.to_ascii_lowercase())
        .eq(wanted.iter().map(|byte| char::from(*byte)))
}

fn is_ntfs_git(name: &[u8]) -> bool {
    let Some((head, rest)) = name.split_at_checked(4) else {
        return false;
    };
    if head.eq_ignore_ascii_case(b".git") {
        return ends(rest);
    }
    name.split_at_checked(5)
        .is_some_and(|(head, rest)| head.eq_ignore_ascii_case(b"git~1") && ends(rest))
}

/// Whether nothing that NTFS keeps follows: blanks and dots up to the end, a stream, or a folder below.
fn ends(rest: &[u8]) -> bool {
    let kept = rest.iter().find(|byte| !matches!(byte, b' ' | b'.'));
    matches!(kept, None | Some(b':' | b'\\' | b'/'))
}

/// `word` is the name without its dot; `short` the beginning of its hashed short name.
fn is_ntfs(name: &[u8], word: &[u8], short: [u8; 6]) -> bool {
    if let Some((b'.', rest)) = name.split_first().map(|(first, rest)| (*first, rest))
        && let Some((head, rest)) = rest.split_at_checked(word.len())
        && head.eq_ignore_ascii_case(word)
    {
        return ends(rest);
    }
    let Some((eight, rest)) = name.split_at_checked(8) else {
        return false;
    };
    let (six, number) = eight.split_at(6);
    let plain = six.eq_ignore_ascii_case(&word[..6]) && matches!(number, [b'~', b'1'..=b'4']);
    (plain || is_hashed(eight, short)) && ends(rest)
}

/// `gi7eba~1`, or with more digits and fewer letters: `gi7eb~12`.
fn is_hashed(eight: &[u8], short: [u8; 6]) -> bool {
    let Some(tilde) = eight.iter().position(|byte| *byte == b'~') else {
        return false;
    };
    let (letters, digits) = (&eight[..tilde], &eight[tilde + 1..]);
    letters.len() <= 6
        && letters.eq_ignore_ascii_case(&short[..letters.len()])
        && matches!(digits.first(), Some(b'1'..=b'9'))
        && digits.iter().all(u8::is_ascii_digit)
}
