//! The trace as events of the `tracing` crate.

use std::sync::{Arc, Mutex};

use ironbridge::DType;
use ironbridge::memory::{emit_tracing_events, set_trace_hook};
use ironbridge::ops::Fill;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::memory_trace::open;

crate::harness::cases! {
    every_operation_is_an_event,
}

/// Keeps every event's fields as `name=value`.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<Vec<String>>>>);

struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push(format!("{}={value:?}", field.name()));
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "ironbridge::memory"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn every_operation_is_an_event() {
    let device = open();
    let buffer = device.buffer::<u32>(1000).unwrap();
    let out = buffer.tensor_at(0, DType::U32);
    let fill = Fill::new(out, 4000).with_value(0);
    let listener = Listener::default();
    let line = tracing::subscriber::with_default(listener.clone(), || {
        emit_tracing_events();
        let mut commands = device.commands().unwrap();
        let line = line!() + 1;
        commands.fill(&fill).unwrap();
        set_trace_hook(None);
        commands.fill(&fill).unwrap();
        line
    });
    let events = listener.0.lock().unwrap();
    let [event] = events.as_slice() else {
        panic!("{events:?}")
    };
    for expected in [
        "operation=\"fill\"".to_string(),
        "shape=\"bytes=4000\"".to_string(),
        format!("at.file={:?}", file!()),
        format!("at.line={line}"),
        "active_bytes=4000".to_string(),
        "command_buffers=1".to_string(),
    ] {
        assert!(event.contains(&expected), "{expected}: {event:?}");
    }
}
