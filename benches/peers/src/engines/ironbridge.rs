//! ironbridge on its software device.

use std::path::Path;

use ironbridge::Device;
use ironbridge::llama::{Model, Session, SessionOptions};

use super::{CONTEXT, Engine, Result};

pub struct Ironbridge {
    model: Model,
    session: Session,
}

impl Ironbridge {
    pub fn load(file: &Path) -> Result<Box<dyn Engine>> {
        let model = Model::open(&Device::open("cpu")?, file)?;
        let context = CONTEXT.min(model.config().context);
        let session = Session::new(
            &model,
            SessionOptions {
                context: Some(context),
                ..Default::default()
            },
        )?;
        Ok(Box::new(Ironbridge { model, session }))
    }
}

impl Engine for Ironbridge {
    fn reset(&mut self) -> Result<()> {
        self.session.rewind(0);
        Ok(())
    }

    fn feed(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        self.session.feed(tokens)?;
        Ok(self.session.logits()?.to_vec())
    }

    fn settle(&mut self) {
        self.model.settle();
    }
}
