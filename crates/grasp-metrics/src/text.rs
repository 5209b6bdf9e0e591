//! The text exposition format, version 0.0.4: `# HELP`, `# TYPE`, one line for each series.

use std::fmt::{Display, Write as _};

use crate::{Family, Histogram, Histograms, Label, Table};

/// Numbers as monitoring reads them.
#[derive(Debug, Default)]
pub struct Text(String);

/// What monitoring may do with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// The series of one name.
#[derive(Debug)]
pub struct Metric<'t> {
    text: &'t mut String,
    name: &'static str,
}

/// Labels of one series, in order.
type Labels<'l> = &'l [(&'static str, &'l str)];

impl Text {
    /// What the response says of itself.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins a name; its series follow.
    pub fn metric(&mut self, name: &'static str, sort: Sort, help: &str) -> Metric<'_> {
        let sort = match sort {
            Sort::Counter => "counter",
            Sort::Gauge => "gauge",
            Sort::Histogram => "histogram",
        };
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {sort}\n");
        Metric {
            text: &mut self.0,
            name,
        }
    }

    /// A counter without labels.
    pub fn counter(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.metric(name, Sort::Counter, help).sample(&[], value);
    }

    /// A gauge without labels.
    pub fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.metric(name, Sort::Gauge, help).sample(&[], value);
    }

    /// The counters of a family.
    pub fn family<L: Label>(
        &mut self,
        name: &'static str,
        help: &str,
        label: &'static str,
        family: &Family<L>,
    ) {
        self.metric(name, Sort::Counter, help)
            .family(label, family.iter());
    }

    /// The counters of a table.
    pub fn table<A: Label, B: Label>(
        &mut self,
        name: &'static str,
        help: &str,
        labels: [&'static str; 2],
        table: &Table<A, B>,
    ) {
        let mut metric = self.metric(name, Sort::Counter, help);
        for (first, second, count) in table.iter() {
            metric.sample(
                &[(labels[0], first.name()), (labels[1], second.name())],
                count,
            );
        }
    }

    /// A histogram without labels.
    pub fn histogram(&mut self, name: &'static str, help: &str, histogram: &Histogram) {
        self.metric(name, Sort::Histogram, help)
            .histogram(None, histogram);
    }

    /// Histograms by label.
    pub fn histograms<L: Label>(
        &mut self,
        name: &'static str,
        help: &str,
        label: &'static str,
        histograms: &Histograms<L>,
    ) {
        let mut metric = self.metric(name, Sort::Histogram, help);
        for (value, histogram) in histograms.iter() {
            metric.histogram(Some((label, value.name())), histogram);
        }
    }

    /// The whole text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl Metric<'_> {
    /// One series.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, value);
    }

    /// One series for each value of a label.
    pub fn family<L: Label>(
        &mut self,
        label: &'static str,
        counts: impl IntoIterator<Item = (L, u64)>,
    ) {
        for (value, count) in counts {
            self.sample(&[(label, value.name())], count);
        }
    }

    fn histogram(&mut self, label: Option<(&'static str, &str)>, histogram: &Histogram) {
        let reading = histogram.read();
        let bounds = reading.buckets.iter();
        let bounds = bounds.map(|(bound, count)| (bound.to_string(), *count));
        let above = std::iter::once(("+Inf".to_owned(), reading.count));
        for (bound, count) in bounds.chain(above) {
            let labels: Vec<_> = label.into_iter().chain([("le", bound.as_str())]).collect();
            self.line("_bucket", &labels, count);
        }
        let labels: Vec<_> = label.into_iter().collect();
        self.line("_sum", &labels, reading.sum);
        self.line("_count", &labels, reading.count);
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::labels! {
        /// For the test.
        Colour {
            /// One.
            Red = "red",
            /// Another.
            Blue = "blue",
        }
    }

    #[test]
    fn every_series_is_there_before_it_moves() {
        let (family, table) = (Family::default(), Table::<Colour, Colour>::default());
        family.count(Colour::Blue);
        let mut text = Text::default();
        text.family("of_one", "One label.", "colour", &family);
        text.table("of_two", "Two labels.", ["a", "b"], &table);
        assert_eq!(
            text.into_string(),
            "# HELP of_one One label.\n# TYPE of_one counter\n\
             of_one{colour=\"red\"} 0\nof_one{colour=\"blue\"} 1\n\
             # HELP of_two Two labels.\n# TYPE of_two counter\n\
             of_two{a=\"red\",b=\"red\"} 0\nof_two{a=\"red\",b=\"blue\"} 0\n\
             of_two{a=\"blue\",b=\"red\"} 0\nof_two{a=\"blue\",b=\"blue\"} 0\n"
        );
    }

    #[test]
    fn a_histogram_has_cumulative_buckets_a_sum_and_a_count() {
        let histograms = Histograms::new(&[0.5, 1.0]);
        histograms.of(Colour::Red).observe(0.75);
        let mut text = Text::default();
        text.histograms("took_seconds", "Time.", "colour", &histograms);
        let text = text.into_string();
        assert!(
            text.contains(
                "took_seconds_bucket{colour=\"red\",le=\"0.5\"} 0\n\
                 took_seconds_bucket{colour=\"red\",le=\"1\"} 1\n\
                 took_seconds_bucket{colour=\"red\",le=\"+Inf\"} 1\n\
                 took_seconds_sum{colour=\"red\"} 0.75\n\
                 took_seconds_count{colour=\"red\"} 1\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_a_build_says_of_itself_cannot_break_a_line() {
        let mut text = Text::default();
        text.metric("info", Sort::Gauge, "Build.")
            .sample(&[("version", "a\"b\\c\nd")], 1);
        assert!(
            text.into_string()
                .ends_with("info{version=\"a\\\"b\\\\c\\nd\"} 1\n")
        );
    }
}
