//! Plots as self-contained SVG: panels side by side, labelled axes, a legend in each.

use crate::report::{Legend, Line, Panel, Style};
use kuva::backend::svg::SvgBackend;
use kuva::plot::LinePlot;
use kuva::plot::legend::LegendPosition;
use kuva::plot::scatter::ScatterPlot;
use kuva::render::figure::Figure;
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;

/// Colours that differ on paper and for the colour-blind (Okabe and Ito), then darker ones.
pub const COLORS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999",
    "#00436a", "#8c3d00", "#005f45", "#7a4965",
];

/// Fonts that all systems have.
const FONT: &str = "DejaVu Sans, Helvetica, Arial, sans-serif";
const PANEL_WIDTH: f64 = 520.0;
const PANEL_HEIGHT: f64 = 400.0;
/// Space for a legend next to the plot.
const LEGEND_WIDTH: f64 = 190.0;
/// Characters of names that fit below a panel side by side.
const NAMES_CHARS: usize = 50;
/// Where an axis of values ends, in multiples of the greatest value.
const HEADROOM: f64 = 1.06;
/// Panels of a row, at most.
const COLUMNS: usize = 3;

/// The panels, up to three in a row, as SVG text.
pub fn figure(title: &str, panels: &[Panel]) -> String {
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    let columns = panels.len().div_ceil(rows).max(1);
    let has_side_legend = panels.iter().any(|panel| panel.legend == Legend::Outside);
    let width = PANEL_WIDTH + if has_side_legend { LEGEND_WIDTH } else { 0.0 };
    let plots = panels.iter().map(curves).collect::<Vec<_>>();
    let layouts = panels
        .iter()
        .zip(&plots)
        .map(|(p, c)| layout(p, c))
        .collect();
    let scene = Figure::new(rows, columns)
        .with_title(title)
        .with_cell_size(width, PANEL_HEIGHT)
        .with_plots(plots)
        .with_layouts(layouts)
        .render();
    SvgBackend.render_scene(&scene)
}

fn layout(panel: &Panel, curves: &[Plot]) -> Layout {
    let legend = match panel.legend {
        Legend::BottomRight => LegendPosition::InsideBottomRight,
        Legend::TopRight => LegendPosition::InsideTopRight,
        Legend::TopLeft => LegendPosition::InsideTopLeft,
        Legend::Outside => LegendPosition::OutsideRightTop,
    };
    let mut layout = Layout::auto_from_plots(curves)
        .with_title(panel.title.as_str())
        .with_x_label(panel.x.label.as_str())
        .with_y_label(panel.y.label.as_str())
        .with_tick_format(TickFormat::Auto)
        .with_legend_position(legend)
        .with_title_size(15)
        .with_font_family(FONT);
    layout = if panel.x.log {
        layout.with_log_x()
    } else if panel.x.names.is_empty() {
        layout.with_x_axis_min(0.0)
    } else {
        let names = &panel.x.names;
        let is_wide = names.iter().map(String::len).sum::<usize>() > NAMES_CHARS;
        layout
            .with_x_categories(names.clone())
            .with_x_axis_min(0.5)
            .with_x_axis_max(names.len() as f64 + 0.5)
            .with_x_tick_rotate(if is_wide { -45.0 } else { 0.0 })
    };
    layout = if panel.y.log {
        layout.with_log_y()
    } else {
        let points = panel.lines.iter().flat_map(|line| &line.points);
        let most = points.map(|(_, y)| *y).fold(0.0, f64::max);
        let layout = layout.with_y_axis_min(0.0);
        match most > 0.0 {
            true => layout.with_y_axis_max(HEADROOM * most),
            false => layout,
        }
    };
    if let Some(max) = panel.x.max {
        layout = layout.with_x_axis_max(max);
    }
    if let Some(max) = panel.y.max {
        layout = layout.with_y_axis_max(max);
    }
    layout
}

fn curves(panel: &Panel) -> Vec<Plot> {
    panel.lines.iter().flat_map(curve).collect()
}

fn curve(line: &Line) -> Vec<Plot> {
    let color = COLORS[line.color % COLORS.len()];
    let mut plots = Vec::new();
    let mut name = (!line.name.is_empty()).then_some(line.name.as_str());
    if line.style != Style::Dots {
        let mut plot = LinePlot::new()
            .with_data(line.points.iter().copied())
            .with_color(color)
            .with_stroke_width(1.8);
        if line.style == Style::Dashed {
            plot = plot.with_dashed();
        }
        if let Some(name) = name.take() {
            plot = plot.with_legend(name);
        }
        plots.push(Plot::Line(plot));
    }
    if matches!(line.style, Style::Dots | Style::Marked) {
        let mut plot = ScatterPlot::new()
            .with_data(line.points.iter().copied())
            .with_color(color)
            .with_size(2.6);
        if let Some(name) = name {
            plot = plot.with_legend(name);
        }
        plots.push(Plot::Scatter(plot));
    }
    plots
}
