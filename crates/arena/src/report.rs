//! The report on a match as one HTML file that needs no other: ratings and progress as SVG, results
//! by colour, opening and game.

use std::fmt::Write as _;

use games::html::{escape, head};

use crate::{EloEstimate, WinDrawLoss, elo_text, summary::Summary};

/// The style of faults and of collapsible sections.
const STYLE: &str = ".fault{color:#b00}details{margin:.5rem 0}";

/// The report.
#[must_use]
pub fn html_report(summary: &Summary) -> String {
    // Writing to a string cannot fail, here and below.
    let mut text = head(&summary.title, 62, STYLE);
    players(&mut text, summary);
    text.push_str("<h2>Ratings</h2>\n");
    text.push_str(&ratings_chart(summary));
    if summary.progress.len() > 1 {
        text.push_str("<h2>Progress of the interval</h2>\n");
        text.push_str(&progress_chart(summary));
    }
    if let Some(sprt) = &summary.sprt {
        let _ = writeln!(text, "<p>{}</p>", escape(&sprt.to_string()));
    }
    head_to_heads(&mut text, summary);
    colours(&mut text, summary);
    openings(&mut text, summary);
    games(&mut text, summary);
    text.push_str("</body></html>\n");
    text
}

fn percent(tally: WinDrawLoss) -> String {
    if tally.games() == 0 {
        return "–".to_owned();
    }
    format!("{:.1} %", 100.0 * tally.points() / f64::from(tally.games()))
}

fn interval(estimate: Option<EloEstimate>) -> String {
    estimate.map_or_else(String::new, |estimate| estimate.to_string())
}

fn players(text: &mut String, summary: &Summary) {
    text.push_str(
        "<table><tr><th class=\"t\">player</th><th class=\"t\">limit</th><th>games</th><th>won</th><th>drawn</th>\
         <th>lost</th><th>score</th><th class=\"t\">faults</th></tr>\n",
    );
    for player in &summary.players {
        let faults: Vec<String> =
            player.faults.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
        let _ = writeln!(
            text,
            "<tr><td class=\"t\">{}</td><td class=\"t\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td class=\"t fault\">{}</td></tr>",
            escape(&player.name),
            escape(&player.limit),
            player.tally.games(),
            player.tally.wins,
            player.tally.draws,
            player.tally.losses,
            percent(player.tally),
            escape(&faults.join(", "))
        );
    }
    text.push_str("</table>\n");
}

/// The mapping of a range of values to pixels.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// The range of the finite values, with room around them.
    fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            return Self { low: -100.0, high: 100.0, from, to };
        }
        let room = ((high - low) * 0.06).max(10.0);
        Self { low: low - room, high: high + room, from, to }
    }

    /// The pixel of a value; values outside the range are put at its edge.
    fn at(&self, value: f64) -> f64 {
        let share = (value.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    /// About six round values.
    fn ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 6.0;
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }
}

fn ratings_chart(summary: &Summary) -> String {
    const ROW: f64 = 26.0;
    let mut rows: Vec<_> = summary.players.iter().collect();
    let elo = |rating: Option<[f64; 3]>| rating.map_or(f64::NEG_INFINITY, |rating| rating[0]);
    rows.sort_by(|a, b| elo(b.rating).total_cmp(&elo(a.rating)));
    let axis = Axis::around(rows.iter().filter_map(|row| row.rating).flatten(), 230.0, 760.0);
    let height = ROW * rows.len() as f64 + 30.0;
    let mut svg = format!(
        "<svg viewBox=\"0 0 900 {height}\" width=\"900\" height=\"{height}\" role=\"img\">\n"
    );
    for tick in axis.ticks() {
        let x = axis.at(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{:.0}\" stroke=\"#8884\"/>\
             <text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            height - 24.0,
            height - 8.0,
            elo_text(tick)
        );
    }
    for (index, row) in rows.iter().enumerate() {
        let y = ROW * index as f64 + 15.0;
        let _ = write!(
            svg,
            "<text x=\"220\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
            y + 4.0,
            escape(&row.name)
        );
        match row.rating {
            Some([elo, low, high]) => {
                let interval = if low == high {
                    "0, by definition".to_owned()
                } else {
                    format!("{} [{}, {}]", elo_text(elo), elo_text(low), elo_text(high))
                };
                let _ = writeln!(
                    svg,
                    "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#47c\" stroke-width=\"3\"/>\
                     <circle cx=\"{:.1}\" cy=\"{y}\" r=\"5\" fill=\"#47c\"/>\
                     <text x=\"772\" y=\"{:.0}\">{interval}</text>",
                    axis.at(low),
                    axis.at(high),
                    axis.at(elo),
                    y + 4.0
                );
            }
            None => {
                let _ = writeln!(svg, "<text x=\"772\" y=\"{:.0}\">not finite</text>", y + 4.0);
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn progress_chart(summary: &Summary) -> String {
    let points = &summary.progress;
    let last = points.last().map_or(1, |point| point.games);
    // The first intervals are wide, so the second half of the match sets the scale.
    let scale = &points[points.len() / 2..];
    let y = Axis::around(scale.iter().flat_map(|point| [point.low, point.high, 0.0]), 250.0, 10.0);
    let x = |games: u32| 60.0 + 820.0 * f64::from(games) / f64::from(last.max(1));
    let mut svg =
        "<svg viewBox=\"0 0 900 290\" width=\"900\" height=\"290\" role=\"img\">\n".to_owned();
    for tick in y.ticks() {
        let at = y.at(tick);
        let colour = if tick == 0.0 { "#888" } else { "#8884" };
        let _ = writeln!(
            svg,
            "<line x1=\"60\" x2=\"880\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"{colour}\"/>\
             <text x=\"52\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            at + 4.0,
            elo_text(tick)
        );
    }
    let line = |value: fn(&crate::summary::ProgressPoint) -> f64| -> String {
        points
            .iter()
            .map(|point| format!("{:.1},{:.1} ", x(point.games), y.at(value(point))))
            .collect()
    };
    let back: String = points
        .iter()
        .rev()
        .map(|point| format!("{:.1},{:.1} ", x(point.games), y.at(point.low)))
        .collect();
    let _ = writeln!(
        svg,
        "<polygon points=\"{}{back}\" fill=\"#47c3\"/><polyline points=\"{}\" fill=\"none\" stroke=\"#47c\" \
         stroke-width=\"2\"/><text x=\"60\" y=\"275\">0</text><text x=\"880\" y=\"275\" text-anchor=\"end\">{last} \
         games</text>\n</svg>",
        line(|point| point.high),
        line(|point| point.elo)
    );
    svg
}

fn head_to_heads(text: &mut String, summary: &Summary) {
    text.push_str(
        "<h2>Against each other</h2>\n<table><tr><th class=\"t\">first</th><th class=\"t\">second</th><th>games</th>\
         <th>won</th><th>drawn</th><th>lost</th><th>score</th><th>Elo (95 %)</th><th>LOS</th>\
         <th>pairs LL, LD, even, WD, WW</th></tr>\n",
    );
    for head_to_head in &summary.head_to_heads {
        let superiority = head_to_head
            .estimate
            .map_or_else(String::new, |estimate| format!("{:.1} %", 100.0 * estimate.superiority));
        let _ = writeln!(
            text,
            "<tr><td class=\"t\">{}</td><td class=\"t\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{superiority}</td><td>{}</td></tr>",
            escape(&summary.players[head_to_head.first].name),
            escape(&summary.players[head_to_head.second].name),
            head_to_head.tally.games(),
            head_to_head.tally.wins,
            head_to_head.tally.draws,
            head_to_head.tally.losses,
            percent(head_to_head.tally),
            interval(head_to_head.estimate),
            head_to_head.pairs
        );
    }
    text.push_str("</table>\n");
}

fn colours(text: &mut String, summary: &Summary) {
    text.push_str(
        "<h2>By colour</h2>\n<table><tr><th class=\"t\">player</th><th>White</th><th>score</th><th>Black</th>\
         <th>score</th></tr>\n",
    );
    for player in &summary.players {
        let _ = writeln!(
            text,
            "<tr><td class=\"t\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&player.name),
            player.as_white,
            percent(player.as_white),
            player.as_black,
            percent(player.as_black)
        );
    }
    text.push_str("</table>\n");
}

fn openings(text: &mut String, summary: &Summary) {
    let _ = write!(
        text,
        "<h2>By opening</h2>\n<details><summary>{} openings</summary><table><tr><th class=\"t\">opening</th>\
         <th>White's results</th><th>{}'s results</th></tr>\n",
        summary.openings.len(),
        escape(summary.players.first().map_or("", |player| &player.name))
    );
    for opening in &summary.openings {
        let _ = writeln!(
            text,
            "<tr><td class=\"t\">{}</td><td>{}</td><td>{}</td></tr>",
            escape(&opening.name),
            opening.white,
            opening.first
        );
    }
    text.push_str("</table></details>\n");
}

fn games(text: &mut String, summary: &Summary) {
    let _ = write!(
        text,
        "<h2>Games</h2>\n<details><summary>{} games</summary><table><tr><th>game</th><th class=\"t\">White</th>\
         <th class=\"t\">Black</th><th>result</th><th class=\"t\">end</th><th>plies</th><th>seconds</th></tr>\n",
        summary.games.len()
    );
    for game in &summary.games {
        let fault = game.fault.as_ref().map_or_else(String::new, |fault| {
            format!(" <span class=\"fault\">({})</span>", escape(&fault.detail))
        });
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td class=\"t\">{}</td><td class=\"t\">{}</td><td>{}</td><td class=\"t\">{}{fault}</td>\
             <td>{}</td><td>{:.1}</td></tr>",
            game.number + 1,
            escape(&summary.players[game.white].name),
            escape(&summary.players[game.black].name),
            game.result,
            escape(&game.ending),
            game.plies,
            game.seconds
        );
    }
    text.push_str("</table></details>\n");
}
