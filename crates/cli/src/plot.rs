//! Line plots as self-contained SVG: panels side by side, labelled axes, a legend in each.

use kuva::backend::svg::SvgBackend;
use kuva::plot::LinePlot;
use kuva::plot::legend::LegendPosition;
use kuva::render::figure::Figure;
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;

/// Colours that are told apart on paper and by the colour-blind (Okabe and Ito).
pub const BLUE: &str = "#0072b2";
/// The second colour.
pub const RED: &str = "#d55e00";

/// Fonts that are there on all systems.
const FONT: &str = "DejaVu Sans, Helvetica, Arial, sans-serif";
const PANEL_WIDTH: f64 = 520.0;
const PANEL_HEIGHT: f64 = 400.0;

/// A curve.
pub struct Line {
    name: Option<String>,
    color: &'static str,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

impl Line {
    /// Drawn through.
    pub fn solid(name: &str, color: &'static str, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: (!name.is_empty()).then(|| name.to_string()),
            color,
            dashed: false,
            points,
        }
    }

    /// Dashed, so that it is seen on top of another.
    pub fn dashed(name: &str, color: &'static str, points: Vec<(f64, f64)>) -> Self {
        Self {
            dashed: true,
            ..Self::solid(name, color, points)
        }
    }
}

/// A plot of a figure.
pub struct Panel {
    /// Above it.
    pub title: String,
    /// What the x axis shows, with its unit.
    pub x_label: String,
    /// What the y axis shows, with its unit.
    pub y_label: String,
    /// Where the y axis ends, if not by itself.
    pub y_max: Option<f64>,
    /// Its curves.
    pub lines: Vec<Line>,
}

/// The panels side by side, as SVG text.
pub fn figure(title: &str, panels: Vec<Panel>) -> String {
    let columns = panels.len();
    let (mut plots, mut layouts) = (Vec::new(), Vec::new());
    for panel in panels {
        let lines: Vec<Plot> = panel.lines.into_iter().map(curve).collect();
        let mut layout = Layout::auto_from_plots(&lines)
            .with_title(panel.title)
            .with_x_label(panel.x_label)
            .with_y_label(panel.y_label)
            .with_x_axis_min(0.0)
            .with_y_axis_min(0.0)
            .with_tick_format(TickFormat::Auto)
            .with_legend_position(LegendPosition::InsideBottomRight)
            .with_title_size(15)
            .with_font_family(FONT);
        if let Some(y_max) = panel.y_max {
            layout = layout.with_y_axis_max(y_max);
        }
        plots.push(lines);
        layouts.push(layout);
    }
    let scene = Figure::new(1, columns)
        .with_title(title)
        .with_cell_size(PANEL_WIDTH, PANEL_HEIGHT)
        .with_plots(plots)
        .with_layouts(layouts)
        .render();
    SvgBackend.render_scene(&scene)
}

fn curve(line: Line) -> Plot {
    let mut plot = LinePlot::new()
        .with_data(line.points)
        .with_color(line.color)
        .with_stroke_width(1.8);
    if line.dashed {
        plot = plot.with_dashed();
    }
    if let Some(name) = line.name {
        plot = plot.with_legend(name);
    }
    Plot::Line(plot)
}
