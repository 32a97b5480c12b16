//! Writes `report.html`: a self-contained page with the curves and tables of a run, made from its
//! journal. The curves are also written as SVG files.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use plotters::prelude::*;

use crate::{Event, GamePhase, TrainError, ValidationMetrics, journal, summary};

/// A named curve of a chart.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
    color: RGBColor,
    /// Also draw the points as dots, for curves of few points.
    dots: bool,
}

const TRAINING: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);
const SOURCES: [RGBColor; 7] = [
    RGBColor(0x1f, 0x6f, 0xb2),
    RGBColor(0xd1, 0x5b, 0x1e),
    RGBColor(0x2f, 0x8f, 0x4e),
    RGBColor(0x8a, 0x4f, 0xb0),
    RGBColor(0xb8, 0x2f, 0x5a),
    RGBColor(0x8c, 0x6d, 0x1f),
    RGBColor(0x3a, 0x3f, 0x4a),
];

/// Draws the report of a run folder.
///
/// # Errors
/// The journal cannot be read, a chart cannot be drawn, or a file cannot be written.
pub fn write(folder: &Path) -> Result<(), TrainError> {
    let events = journal::read(folder)?;
    let is_choice = |event: &Event| matches!(event, Event::Validation { sources, .. } if sources.iter().any(|measures| measures.agreement.is_some()));
    let mut charts = vec![
        ("loss", chart("Loss", &curves(&events, |event| event.0, |measures| measures.loss))?),
        (
            "ranking",
            chart(
                "Kendall tau-a (training batches), tau-b without mates (validation)",
                &curves(&events, |event| event.1, |measures| measures.ranking.tau_b),
            )?,
        ),
        ("learning-rate", chart("Learning rate", &curves(&events, |event| event.2, |_| f64::NAN))?),
    ];
    if events.iter().any(is_choice) {
        charts.push(("accuracy", chart(ACCURACY, &curves(&events, |_| f64::NAN, top_1))?));
    }
    for (name, svg) in &charts {
        save(&folder.join(format!("{name}.svg")), svg)?;
    }
    let config = std::fs::read_to_string(folder.join("config.toml")).unwrap_or_default();
    save(
        &folder.join("report.html"),
        &page(
            folder,
            &events,
            &charts.into_iter().map(|chart| chart.1).collect::<Vec<_>>(),
            &config,
        ),
    )
}

const ACCURACY: &str = "Played move or chosen square first, % (validation)";

/// Share of positions whose played move or target square comes first, in percent.
fn top_1(measures: &ValidationMetrics) -> f64 {
    measures.agreement.as_ref().map_or(f64::NAN, |agreement| 100.0 * agreement.top_1)
}

/// Draws the losses and accuracies of several runs, each with its name, into two charts in
/// `folder`.
///
/// # Errors
/// As [`write`].
pub fn write_group(folder: &Path, runs: &[(String, PathBuf)]) -> Result<(), TrainError> {
    let (mut losses, mut accuracies) = (Vec::new(), Vec::new());
    for ((name, run), color) in runs.iter().zip(SOURCES.into_iter().cycle()) {
        let events = journal::read(run)?;
        let named = |curves: Vec<Curve>| -> Vec<Curve> {
            let validated = curves.into_iter().filter(|curve| curve.dots).take(1);
            validated.map(|curve| Curve { name: name.clone(), color, ..curve }).collect()
        };
        losses.extend(named(curves(&events, |_| f64::NAN, |measures| measures.loss)));
        accuracies.extend(named(curves(&events, |_| f64::NAN, top_1)));
    }
    save(&folder.join("loss.svg"), &chart("Loss (validation)", &losses)?)?;
    save(&folder.join("accuracy.svg"), &chart(ACCURACY, &accuracies)?)
}

fn save(path: &Path, text: &str) -> Result<(), TrainError> {
    board::write_whole(path, text.as_bytes())
        .map_err(|source| TrainError::Io { path: path.to_owned(), source })
}

/// The training curve and one curve for each validated source, over millions of samples.
fn curves(
    events: &[Event],
    training: impl Fn((f64, f64, f64)) -> f64,
    validation: impl Fn(&ValidationMetrics) -> f64,
) -> Vec<Curve> {
    let mut train = Vec::new();
    let mut sources: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for event in events {
        match event {
            Event::Train { samples, loss, tau, learning_rate, .. } => {
                let value = training((*loss, *tau, f64::from(*learning_rate)));
                train.push((*samples as f64 / 1e6, value));
            }
            Event::Validation { samples, sources: all, .. } => {
                for measures in all {
                    let points = sources.entry(curve_name(measures, all)).or_default();
                    points.push((*samples as f64 / 1e6, validation(measures)));
                }
            }
            Event::Start { .. } | Event::End { .. } => {}
        }
    }
    let mut curves =
        vec![Curve { name: "training".to_owned(), points: train, color: TRAINING, dots: false }];
    for (index, (name, points)) in sources.into_iter().enumerate() {
        let color = SOURCES[index % SOURCES.len()];
        curves.push(Curve { name, points, color, dots: true });
    }
    for curve in &mut curves {
        curve.points.retain(|point| point.1.is_finite());
    }
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

/// The name of the source, with the head if several heads are validated.
fn curve_name(measures: &ValidationMetrics, all: &[ValidationMetrics]) -> String {
    match measures.head {
        Some(head) if all.iter().any(|other| other.head != measures.head) => {
            format!("{}, {}", measures.source, head.name())
        }
        _ => measures.source.clone(),
    }
}

/// Draws a chart as SVG text.
fn chart(title: &str, curves: &[Curve]) -> Result<String, TrainError> {
    let mut svg = String::new();
    draw(&mut svg, title, curves)
        .map_err(|error| TrainError::Config(format!("cannot draw the chart `{title}`: {error}")))?;
    Ok(svg)
}

fn draw(svg: &mut String, title: &str, curves: &[Curve]) -> Result<(), Box<dyn std::error::Error>> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let end = points().map(|point| point.0).fold(1e-6, f64::max);
    let low = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = if low < high { (low, high) } else { (0.0, high.max(1.0)) };
    let margin = 0.05 * (high - low);
    let root = SVGBackend::with_string(svg, (860, 380)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 17))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, low - margin..high + margin)?;
    let decimals = if high - low < 0.02 { 5 } else { 2 };
    chart
        .configure_mesh()
        .light_line_style(RGBColor(0xf2, 0xf2, 0xf2))
        .bold_line_style(RGBColor(0xe0, 0xe0, 0xe0))
        .x_desc("million positions seen")
        .y_label_formatter(&|value| format!("{value:.decimals$}"))
        .label_style(("sans-serif", 12))
        .draw()?;
    for curve in curves {
        let color = curve.color;
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), color.stroke_width(2)))?
            .label(curve.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        if curve.dots {
            chart.draw_series(
                curve.points.iter().map(|&point| Circle::new(point, 3, color.filled())),
            )?;
        }
    }
    if curves.len() > 1 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::MiddleRight)
            .border_style(RGBColor(0xc0, 0xc0, 0xc0))
            .background_style(WHITE)
            .label_font(("sans-serif", 12))
            .draw()?;
    }
    root.present()?;
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn page(folder: &Path, events: &[Event], charts: &[String], config: &str) -> String {
    let name =
        folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = escape(&name);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name}</title>\n<style>\
         body{{font:15px/1.5 sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222}}\
         table{{border-collapse:collapse;margin:1em 0}}td,th{{padding:.2em .7em;border-bottom:1px solid #ddd;\
         text-align:right}}td:first-child,th:first-child{{text-align:left}}pre{{background:#f6f6f6;padding:1em;\
         overflow:auto}}svg{{max-width:100%;height:auto}}</style></head>\n<body><h1>{name}</h1>\n"
    );
    run_events(&mut page, events);
    for svg in charts {
        page.push_str(svg);
        page.push('\n');
    }
    let last = events.iter().rev().find_map(|event| match event {
        Event::Validation { step, last, sources, .. } => Some((*step, *last, sources)),
        _ => None,
    });
    if let Some((step, last, sources)) = last {
        let when = if last { "at the end, after" } else { "on the way, after" };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "<h2>Validation {when} {step} steps</h2>");
        table(&mut page, sources);
    }
    let _ = writeln!(page, "<h2>Configuration</h2>\n<pre>{}</pre>\n</body></html>", escape(config));
    page
}

fn run_events(page: &mut String, events: &[Event]) {
    for event in events {
        let _ = match event {
            Event::Start { step, steps, positions, backend, machine, revision, data, seed } => {
                writeln!(
                    page,
                    "<p>From step {step} of {steps}: {positions} training positions, {}; {}; revision {}; data {}; \
                 seed {seed}.</p>",
                    escape(backend),
                    escape(machine),
                    escape(revision),
                    escape(data.get(..12).unwrap_or(data)),
                )
            }
            Event::End { step, reason, seconds } => writeln!(
                page,
                "<p>Ended at step {step}: {}, after {:.1} minutes in all.</p>",
                escape(reason),
                seconds / 60.0
            ),
            _ => Ok(()),
        };
    }
}

fn table(page: &mut String, sources: &[ValidationMetrics]) {
    page.push_str(
        "<table><tr><th>source</th><th>positions</th><th>tau-b</th><th>weighted tau</th><th>rho</th>\
         <th>tau-b with mates</th>",
    );
    for phase in GamePhase::ALL {
        let _ = write!(page, "<th>{} tau-b</th>", phase.name());
    }
    page.push_str("<th>loss</th></tr>\n");
    for measures in sources.iter().filter(|measures| measures.ranking.positions > 0) {
        let ranking = &measures.ranking;
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{:.4}</td><td>{:.4}</td><td>{:.4}</td><td>{:.4}</td>",
            escape(&curve_name(measures, sources)),
            ranking.positions,
            ranking.tau_b,
            ranking.weighted_tau,
            ranking.spearman,
            measures.with_mates.tau_b
        );
        for phase in &measures.phases {
            let _ = write!(page, "<td>{:.4}</td>", phase.tau_b);
        }
        let _ = writeln!(page, "<td>{:.4}</td></tr>", measures.loss);
    }
    page.push_str("</table>\n");
    for measures in sources.iter().filter(|measures| measures.agreement.is_some()) {
        let _ =
            writeln!(page, "<p>{}: {}</p>", escape(&measures.source), escape(&summary(measures)));
    }
}
