//! The summary of a file as one HTML file that needs no other: players, accuracies, and the winning
//! chances of each game as SVG.

use std::fmt::Write as _;

use games::html::{escape, head};

use crate::{GameSummary, Judgment, Summary};

/// The style of the charts.
const STYLE: &str =
    ".bar{fill:#4a7fb5}.black{fill:#555}.white{fill:#eee}.frame{fill:none;stroke:#999}";

/// Only this many games are listed and drawn; the table of players covers all.
const MAX_LISTED_GAMES: usize = 500;

/// The report; `title` is its heading, for example the name of the file.
#[must_use]
pub fn html_report(summary: &Summary, title: &str) -> String {
    let mut text = head(title, 66, STYLE);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "<p>{} games, {} evaluated positions. Accuracy and marks as on \
         <a href=\"https://lichess.org/page/accuracy\">Lichess</a>; the loss is in centipawns a move.</p>",
        summary.games.len(),
        summary.positions
    );
    players(&mut text, summary);
    text.push_str("<h2>Accuracies</h2>\n");
    histogram(&mut text, summary);
    games(&mut text, &summary.games);
    text.push_str("</body></html>\n");
    text
}

fn players(text: &mut String, summary: &Summary) {
    text.push_str(
        "<h2>Players</h2>\n<table><tr><th class=\"t\">player</th><th>games</th><th>moves</th><th>accuracy</th>\
         <th>loss</th>",
    );
    for judgment in Judgment::ALL {
        let _ = write!(text, "<th title=\"{} a game\">{}</th>", judgment.name(), judgment.symbol());
    }
    text.push_str("</tr>\n");
    let mut players: Vec<_> = summary.players.iter().collect();
    players.sort_by(|(_, a), (_, b)| b.games.cmp(&a.games).then(b.accuracy.total_cmp(&a.accuracy)));
    for (name, player) in players {
        let _ = write!(
            text,
            "<tr><td class=\"t\">{}</td><td>{}</td><td>{}</td><td>{:.1}</td><td>{:.0}</td>",
            escape(name),
            player.games,
            player.moves,
            player.accuracy,
            player.average_loss
        );
        for count in player.judgments {
            let _ = write!(text, "<td>{:.2}</td>", count as f64 / player.games as f64);
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
}

/// Histogram of the accuracies, in bins of five percent.
fn histogram(text: &mut String, summary: &Summary) {
    const BARS: usize = 20;
    const HEIGHT: usize = 120;
    let mut counts = [0_usize; BARS];
    for player in summary.games.iter().flat_map(|game| game.player_analyses).flatten() {
        counts[((player.accuracy / 5.0) as usize).min(BARS - 1)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let _ = write!(text, "<svg viewBox=\"0 0 640 {}\" width=\"640\" role=\"img\">", HEIGHT + 40);
    for (bar, &count) in counts.iter().enumerate() {
        let (x, height) = (bar * 32, count * HEIGHT / most);
        let _ = write!(
            text,
            "<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"28\" height=\"{height}\"><title>{count}</title></rect>",
            x + 2,
            HEIGHT + 16 - height
        );
        if count > 0 {
            let y = HEIGHT + 12 - height;
            let _ = write!(
                text,
                "<text x=\"{}\" y=\"{y}\" text-anchor=\"middle\">{count}</text>",
                x + 16
            );
        }
        if bar % 2 == 0 {
            let _ = write!(text, "<text x=\"{}\" y=\"{}\">{}</text>", x + 2, HEIGHT + 34, bar * 5);
        }
    }
    text.push_str("</svg>\n");
}

fn games(text: &mut String, games: &[GameSummary]) {
    text.push_str(
        "<h2>Games</h2>\n<table><tr><th>game</th><th class=\"t\">White</th><th class=\"t\">Black</th><th>result</th>\
         <th>accuracy</th><th>?! ? ??</th><th class=\"t\">White's chances</th></tr>\n",
    );
    for (number, game) in (1..).zip(games.iter().take(MAX_LISTED_GAMES)) {
        let accuracy = |side: usize| {
            game.player_analyses[side]
                .map_or_else(|| "–".to_owned(), |player| format!("{:.1}", player.accuracy))
        };
        let judgments = |side: usize| game.judgments[side].map(|count| count.to_string()).join(" ");
        let _ = write!(
            text,
            "<tr><td>{number}</td><td class=\"t\">{}</td><td class=\"t\">{}</td><td>{}</td><td>{} – {}</td>\
             <td>{} – {}</td><td class=\"t\">",
            escape(&game.white),
            escape(&game.black),
            escape(&game.result),
            accuracy(0),
            accuracy(1),
            judgments(0),
            judgments(1)
        );
        winning_chances(text, &game.win_percents);
        text.push_str("</td></tr>\n");
    }
    text.push_str("</table>\n");
    if games.len() > MAX_LISTED_GAMES {
        let _ = writeln!(text, "<p>The first {MAX_LISTED_GAMES} of {} games.</p>", games.len());
    }
}

/// White's winning chances over a game: the area below the line is white, above it black.
fn winning_chances(text: &mut String, wins: &[Option<f64>]) {
    const WIDTH: f64 = 240.0;
    const HEIGHT: f64 = 40.0;
    let step = WIDTH / wins.len().saturating_sub(1).max(1) as f64;
    let known: Vec<(f64, f64)> = wins
        .iter()
        .enumerate()
        .filter_map(|(ply, win)| Some((ply as f64 * step, HEIGHT * (1.0 - (*win)? / 100.0))))
        .collect();
    let [first, .., last] = known.as_slice() else { return };
    let _ = write!(
        text,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\
         <rect class=\"black\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/><path class=\"white\" d=\"M{:.1} {HEIGHT}",
        first.0
    );
    for (x, y) in &known {
        let _ = write!(text, "L{x:.1} {y:.1}");
    }
    let _ = write!(
        text,
        "L{:.1} {HEIGHT}Z\"/><rect class=\"frame\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/></svg>",
        last.0
    );
}
