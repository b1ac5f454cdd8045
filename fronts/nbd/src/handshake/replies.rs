//! Answers to the options that carry information.

use super::close::Close;
use super::negotiation::{Negotiation, Selection, Step};
use crate::catalog::Export;
use crate::proto::*;

impl Negotiation {
    /// Appends a reply that carries at most a message.
    pub(super) fn reply(&mut self, option: u32, kind: u32, message: &str) {
        put_option_reply(&mut self.out, option, kind, message.as_bytes());
    }

    /// `OPT_EXPORT_NAME`: success without a reply head, or the end.
    pub(super) fn export_name(&mut self, data: &[u8]) -> Step {
        let name = match std::str::from_utf8(data) {
            Ok(name) if !name.contains('\0') => name,
            _ => return Step::Close(Close::ExportNameSyntax),
        };
        let Some(export) = self.catalog.snapshot().resolve(name).cloned() else {
            return Step::Close(Close::UnknownExport(name.to_owned()));
        };
        let selection = self.select(export);
        put_export_name_reply(
            &mut self.out,
            selection.export.size_bytes,
            selection.transmission_flags,
            !self.no_zeroes,
        );
        Step::Transmit(selection)
    }

    /// `OPT_LIST`.
    pub(super) fn list(&mut self) -> Step {
        for export in self.catalog.snapshot().iter() {
            put_option_server(&mut self.out, &export.name, &export.description);
        }
        self.reply(OPT_LIST, REP_ACK, "");
        Step::Read
    }

    /// `OPT_INFO` and `OPT_GO`, which differ in what follows success.
    pub(super) fn info_or_go(&mut self, option: u32, data: &[u8]) -> Step {
        let request = match parse_info_request(data) {
            Ok(request) => request,
            Err(error) => return self.malformed(option, error),
        };
        let Some(export) = self.catalog.snapshot().resolve(request.export).cloned() else {
            return self.unknown_export(option);
        };
        let selection = self.select(export);
        let export = &selection.export;
        put_info_export(
            &mut self.out,
            option,
            export.size_bytes,
            selection.transmission_flags,
        );
        let asked = |info| request.kinds.contains(&info);
        if asked(INFO_NAME) {
            put_info_text(&mut self.out, option, INFO_NAME, &export.name);
        }
        if asked(INFO_DESCRIPTION) && !export.description.is_empty() {
            put_info_text(&mut self.out, option, INFO_DESCRIPTION, &export.description);
        }
        if asked(INFO_BLOCK_SIZE) {
            let largest = export.block_size_max.min(PAYLOAD_BYTES_MAX);
            put_info_block_size(&mut self.out, option, export.block_size_preferred, largest);
        }
        self.reply(option, REP_ACK, "");
        if option == OPT_GO {
            Step::Transmit(selection)
        } else {
            Step::Read
        }
    }

    /// `OPT_LIST_META_CONTEXT`. Without queries it lists all contexts. `base:` is a wildcard.
    pub(super) fn list_meta_context(&mut self, data: &[u8]) -> Step {
        let option = OPT_LIST_META_CONTEXT;
        let request = match self.meta_context_request(option, data) {
            Ok(request) => request,
            Err(step) => return step,
        };
        if self.catalog.snapshot().resolve(request.export).is_none() {
            return self.unknown_export(option);
        }
        let matches = |query: &&str| *query == BASE_ALLOCATION || *query == BASE_WILDCARD;
        if request.queries.is_empty() || request.queries.iter().any(matches) {
            put_option_meta_context(&mut self.out, option, 0, BASE_ALLOCATION);
        }
        self.reply(option, REP_ACK, "");
        Step::Read
    }

    /// `OPT_SET_META_CONTEXT`: replaces the selection, also when it fails.
    pub(super) fn set_meta_context(&mut self, data: &[u8]) -> Step {
        let option = OPT_SET_META_CONTEXT;
        self.meta_context_export = None;
        let request = match self.meta_context_request(option, data) {
            Ok(request) => request,
            Err(step) => return step,
        };
        let exports = self.catalog.snapshot();
        let Some(export) = exports.resolve(request.export) else {
            return self.unknown_export(option);
        };
        // Queries that select nothing are ignored: the spec demands this for unknown namespaces, and it serves for
        // unknown leaves of `base` too.
        if request.queries.contains(&BASE_ALLOCATION) {
            self.meta_context_export = Some(export.name.clone());
            put_option_meta_context(&mut self.out, option, BASE_ALLOCATION_ID, BASE_ALLOCATION);
        }
        self.reply(option, REP_ACK, "");
        Step::Read
    }

    /// Parses a metadata context option, which needs structured replies.
    fn meta_context_request<'a>(
        &mut self,
        option: u32,
        data: &'a [u8],
    ) -> Result<MetaContextRequest<'a>, Step> {
        if !self.structured_replies {
            self.reply(
                option,
                REP_ERR_INVALID,
                "negotiate structured replies before metadata contexts",
            );
            return Err(Step::Read);
        }
        parse_meta_context_request(data).map_err(|error| self.malformed(option, error))
    }

    fn malformed(&mut self, option: u32, error: MalformedOption) -> Step {
        self.reply(option, REP_ERR_INVALID, &error.to_string());
        Step::Read
    }

    fn unknown_export(&mut self, option: u32) -> Step {
        self.reply(option, REP_ERR_UNKNOWN, "no such export");
        Step::Read
    }

    /// The selection if the client now entered transmission on `export`.
    fn select(&self, export: Export) -> Selection {
        let base_allocation = self.structured_replies
            && self.meta_context_export.as_deref() == Some(export.name.as_str());
        Selection {
            negotiated: Negotiated {
                structured_replies: self.structured_replies,
                base_allocation,
            },
            transmission_flags: transmission_flags(export.read_only, self.structured_replies),
            export,
        }
    }
}
