//! The frame of an HTML report that needs no other file: head, style and escaping, shared by the
//! reports on matches and on analysed games.

/// The style of all reports; `WIDTH` and `EXTRA` stand for the parts that differ.
const STYLE: &str = include_str!("report.css");

/// The head of a report up to its heading. `title` is plain text, `width` the width of the text in
/// rem, and `style` adds rules to those of all reports.
#[must_use]
pub fn head(title: &str, width: u32, style: &str) -> String {
    let title = escape(title);
    let rules: String = STYLE.lines().collect();
    let style = rules.replace("WIDTH", &width.to_string()).replace("EXTRA", style);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{style}</style></head><body>\n\
         <h1>{title}</h1>\n"
    )
}

/// Plain text as HTML text or as an attribute value.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
