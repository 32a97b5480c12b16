//! A line of the table, as text or as JSON.

/// One line of the table.
pub(super) struct Line {
    pub network: String,
    pub heads: String,
    /// Code path, or the devices.
    pub path: String,
    pub precision: &'static str,
    pub threads: usize,
    pub batch: usize,
    /// Evaluations a second of wall time and of processor time (for GPUs both of wall time).
    pub wall_rate: f64,
    pub cpu_rate: f64,
    /// Floating-point operations of a dense evaluation.
    pub flops: f64,
    /// Peak floating-point operations a second of a core, if measured.
    pub peak: Option<f64>,
}

impl Line {
    fn gflops(&self) -> f64 {
        self.cpu_rate * self.flops / 1e9
    }

    fn share(&self) -> Option<f64> {
        self.peak.map(|peak| self.cpu_rate * self.flops / peak)
    }

    pub fn text(&self) -> String {
        let share = self.share().map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        format!(
            "{:<20} {:<6} {:<8} {:<5} {:>3} {:>6} {:>10.0} {:>10.0} {:>9.0} {:>8}",
            self.network,
            self.heads,
            self.path,
            self.precision,
            self.threads,
            self.batch,
            self.wall_rate,
            self.cpu_rate,
            self.gflops(),
            share
        )
    }

    pub fn json(&self) -> String {
        serde_json::json!({
            "network": self.network,
            "head": self.heads,
            "path": self.path,
            "precision": self.precision,
            "threads": self.threads,
            "batch": self.batch,
            "evaluations_per_second": self.wall_rate,
            "evaluations_per_cpu_second": self.cpu_rate,
            "gflops_per_core": self.gflops(),
            "share_of_peak": self.share(),
        })
        .to_string()
    }
}
