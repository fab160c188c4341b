//! Renders lines of a terminal as SVG. Characters keep their columns, whatever the font.

use std::fmt::Write;

/// Renders lines with colors as escape sequences.
pub(super) fn render(lines: &[String]) -> String {
    let lines: Vec<Vec<StyledText>> = lines.iter().map(|line| parse_styles(line)).collect();
    let last = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    let columns =
        lines.iter().map(|line| line.iter().map(StyledText::columns).sum::<usize>()).max().unwrap_or(0);
    let (width, height) =
        (columns * CHAR_WIDTH / 10 + 2 * PADDING, last * LINE_HEIGHT + 2 * PADDING + TITLE_BAR_HEIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <style>text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, \"DejaVu Sans Mono\", monospace; \
         fill: #d8cfc2; white-space: pre; }} .bold {{ font-weight: 600; fill: #fbf6ee; }} .dim {{ fill: #948a7d; }} \
         .green {{ fill: #93cf9c; }} .red {{ fill: #f0957f; }} .yellow {{ fill: #dba468; }}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"10\" fill=\"#191613\"/>\n"
    );
    for (place, colour) in ["#c96f5b", "#dba468", "#86a97c"].into_iter().enumerate() {
        let _ = writeln!(
            svg,
            "<circle cx=\"{}\" cy=\"22\" r=\"6\" fill=\"{colour}\"/>",
            PADDING + 6 + place * 20
        );
    }
    for (number, line) in lines.iter().enumerate() {
        let y = TITLE_BAR_HEIGHT + PADDING + number * LINE_HEIGHT + 11;
        let mut column = 0;
        for run in line {
            if !run.text.trim().is_empty() {
                // Renderers differ in whether they count spaces at the edges.
                let before = run.text.len() - run.text.trim_start().len();
                let x = PADDING as f64 + (column + before) as f64 * CHAR_WIDTH as f64 / 10.0;
                let text = run.text.trim();
                let length = text.chars().count() * CHAR_WIDTH;
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y}\" textLength=\"{}.{}\"{}>{}</text>",
                    length / 10,
                    length % 10,
                    run.style.map(|style| format!(" class=\"{style}\"")).unwrap_or_default(),
                    text.replace('&', "&amp;").replace('<', "&lt;")
                );
            }
            column += run.columns();
        }
    }
    svg + "</svg>\n"
}

/// Text of one style.
struct StyledText {
    style: Option<&'static str>,
    text: String,
}

impl StyledText {
    fn columns(&self) -> usize {
        self.text.chars().count()
    }
}

fn parse_styles(line: &str) -> Vec<StyledText> {
    let mut style = None;
    let mut runs = Vec::new();
    for (number, part) in line.split("\x1b[").enumerate() {
        // The first part precedes any sequence.
        let text = match (number, part.split_once('m')) {
            (1.., Some((code, text))) => {
                style = match code {
                    "1" => Some("bold"),
                    "2" => Some("dim"),
                    "31" => Some("red"),
                    "32" => Some("green"),
                    "33" => Some("yellow"),
                    _ => None,
                };
                text
            }
            _ => part,
        };
        if !text.is_empty() {
            runs.push(StyledText { style, text: text.to_owned() });
        }
    }
    runs
}

/// The width of a character, in tenths.
const CHAR_WIDTH: usize = 84;
const LINE_HEIGHT: usize = 20;
const PADDING: usize = 20;
/// The space above the first line.
const TITLE_BAR_HEIGHT: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_classes_and_text_is_escaped() {
        let svg = render(&["\x1b[32ma<b\x1b[0m  c".to_owned(), String::new()]);
        assert!(svg.contains("textLength=\"25.2\" class=\"green\">a&lt;b</text>"), "{svg}");
        // Two letters further than the first run is long.
        assert!(svg.contains("<text x=\"62.0\" y=\"55\" textLength=\"8.4\">c</text>"), "{svg}");
        assert!(svg.contains("height=\"84\""), "{svg}");
    }
}
