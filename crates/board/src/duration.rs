//! Times as users write them: `100us`, `500ms`, `5s`, `2m`.

use std::time::Duration;

/// Reads `100us`, `500ms`, `5s`, `2m` or a number of milliseconds.
///
/// # Errors
/// A sentence: the text is not a time, or a negative one, or one of more than 30 years.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    /// About 30 years.
    const LONGEST_SECONDS: f64 = 1e9;
    let expected = || "expected a time like `500ms`, `5s` or `2m`".to_owned();
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "us" => 0.000_001,
        "" | "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(expected()),
    };
    let number: f64 = digits.parse().map_err(|_| expected())?;
    let seconds = number * unit;
    if !(0.0..=LONGEST_SECONDS).contains(&seconds) {
        return Err("the time is negative or too long".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_duration("250"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "-1s", "5h", "1e99", "nan", "inf", "ü", "5 s 3"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
