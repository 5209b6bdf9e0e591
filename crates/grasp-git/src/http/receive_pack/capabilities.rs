//! What a pushing client can take and asks for.

/// The capabilities of a push, as far as they change what is done or said. Others are ignored, as
/// git does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the wire has independent flags"
)]
pub struct Capabilities {
    /// `report-status`: wants to hear about each ref.
    pub report_status: bool,
    /// `report-status-v2`: the same, in the newer form.
    pub report_status_v2: bool,
    /// `side-band-64k`: can take words beside the report.
    pub side_band: bool,
    /// `atomic`: all refs or none (PUSH-8).
    pub atomic: bool,
    /// `quiet`: wants no progress.
    pub quiet: bool,
    /// `push-options`: options follow the commands.
    pub push_options: bool,
    /// `object-format`: the hash function of the client's repository, if it names one.
    pub object_format: Option<String>,
}

impl Capabilities {
    /// Reads the list behind the first command.
    pub fn parse(list: &[u8]) -> Self {
        let mut capabilities = Self::default();
        for word in list.split(u8::is_ascii_whitespace) {
            match word {
                b"report-status" => capabilities.report_status = true,
                b"report-status-v2" => capabilities.report_status_v2 = true,
                b"side-band-64k" => capabilities.side_band = true,
                b"atomic" => capabilities.atomic = true,
                b"quiet" => capabilities.quiet = true,
                b"push-options" => capabilities.push_options = true,
                _ => {
                    if let Some(name) = word.strip_prefix(b"object-format=") {
                        let name = String::from_utf8_lossy(name);
                        capabilities.object_format = Some(name.into_owned());
                    }
                }
            }
        }
        capabilities
    }

    /// Whether a report is wanted in either form.
    pub const fn reports(&self) -> bool {
        self.report_status || self.report_status_v2
    }
}
