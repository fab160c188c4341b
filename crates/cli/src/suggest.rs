//! Suggests names similar to a name that does not exist.

/// Returns the names most similar to `name`, at most three.
pub(crate) fn closest_names<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().take(MAX_COMPARED_CHARS).collect();
    let max_distance = (wanted.len() / 3).max(1);
    let mut found: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|candidate| {
            let lower: Vec<char> = candidate.to_lowercase().chars().take(MAX_COMPARED_CHARS).collect();
            let distance = edit_distance(&wanted, &lower);
            let begins = wanted.len() > 2 && lower.starts_with(&wanted);
            (distance <= max_distance || begins)
                .then_some((if begins { distance.min(max_distance) } else { distance }, candidate))
        })
        .collect();
    found.sort_by_key(|(distance, _)| *distance);
    found.dedup_by(|one, other| one.1 == other.1);
    let best = found.first().map_or(0, |(distance, _)| *distance);
    found
        .into_iter()
        .take_while(|(distance, _)| *distance == best)
        .take(3)
        .map(|(_, candidate)| candidate)
        .collect()
}

/// Returns "did you mean `a` or `b`?", if a similar name exists.
pub(crate) fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near: Vec<String> = closest_names(name, names).into_iter().map(|name| format!("`{name}`")).collect();
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

/// Returns the edit distance: substitutions, insertions, deletions and transpositions of neighbours.
fn edit_distance(one: &[char], other: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    let mut left = None;
    for (row, mine) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        let mut previous = None;
        for (column, theirs) in other.iter().enumerate() {
            let at = |line: &[usize], place: usize| line.get(place).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&last, column) + usize::from(mine != theirs))
                .min(at(&last, column + 1) + 1)
                .min(at(&next, column) + 1);
            if left == Some(theirs) && previous == Some(mine) {
                best = best.min(at(&before, column.wrapping_sub(1)) + 1);
            }
            next.push(best);
            previous = Some(theirs);
        }
        left = Some(mine);
        before = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or_default()
}

/// Characters of a name to compare. The cost is quadratic, and the list may come from a hostile server.
const MAX_COMPARED_CHARS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_are_corrected() {
        let names = ["add", "count", "picture", "summarize"];
        assert_eq!(closest_names("ad", names), ["add"]);
        assert_eq!(closest_names("cuont", names), ["count"]);
        assert_eq!(closest_names("PICTRE", names), ["picture"]);
        assert_eq!(closest_names("summ", names), ["summarize"]);
        assert_eq!(closest_names("nothing", names), [""; 0]);
        assert_eq!(did_you_mean("adda", names).as_deref(), Some("did you mean `add`?"));
    }
}
