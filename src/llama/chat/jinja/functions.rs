//! What templates call without a receiver.

use super::Failure;
use super::arguments::Arguments;
use super::evaluator::Evaluator;
use super::value::{ListBuilder, MapBuilder, Value};
use crate::llama::chat::REFUSAL_CHARACTERS;
use crate::llama::chat::python;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Range,
    Dict,
    Namespace,
    RaiseException,
    StrftimeNow,
}

impl Function {
    pub fn named(name: &str) -> Option<Function> {
        Some(match name {
            "range" => Function::Range,
            "dict" => Function::Dict,
            "namespace" => Function::Namespace,
            "raise_exception" => Function::RaiseException,
            "strftime_now" => Function::StrftimeNow,
            _ => return None,
        })
    }

    pub fn call(self, evaluator: &mut Evaluator, arguments: &Arguments) -> Result<Value, Failure> {
        let budget = evaluator.budget.clone();
        match self {
            Function::Range => {
                arguments.allow(&["start", "stop", "step"])?;
                let (start, stop) = match arguments.positional.len() {
                    0 | 1 => (0, arguments.int(0, "stop")?.unwrap_or(0)),
                    _ => (
                        arguments.int(0, "start")?.unwrap_or(0),
                        arguments.int(1, "stop")?.unwrap_or(0),
                    ),
                };
                let step = arguments.int(2, "step")?.unwrap_or(1);
                if step == 0 {
                    return Err(Failure::fault("the step of a range is zero"));
                }
                let mut list = ListBuilder::new(&budget)?;
                let mut number = start;
                while if step > 0 {
                    number < stop
                } else {
                    number > stop
                } {
                    budget.bytes(size_of::<Value>())?;
                    list.push(Value::Int(number))?;
                    match number.checked_add(step) {
                        Some(next) => number = next,
                        None => break,
                    }
                }
                list.finish(&budget)
            }
            Function::Dict => {
                let mut map = MapBuilder::new(&budget)?;
                match arguments.positional.first() {
                    Some(Value::Map(other)) => {
                        for (key, value) in &other.entries {
                            budget.steps(1)?;
                            map.push(key.clone(), value.clone())?;
                        }
                    }
                    Some(other) => {
                        for pair in &evaluator.iterate(other)?.items {
                            let Value::List(pair) = pair else {
                                return Err(Failure::fault("dict takes pairs"));
                            };
                            let [key, value] = &pair.items[..] else {
                                return Err(Failure::fault("dict takes pairs"));
                            };
                            map.insert(&budget, key.clone(), value.clone())?;
                        }
                    }
                    None => {}
                }
                for (name, value) in &arguments.keyword {
                    map.insert(&budget, budget.text(name)?, value.clone())?;
                }
                map.finish(&budget)
            }
            Function::Namespace => {
                let mut attributes = Vec::new();
                match arguments.positional.first() {
                    Some(Value::Map(map)) => {
                        for (key, value) in &map.entries {
                            budget.steps(1)?;
                            attributes
                                .push((key.as_str().unwrap_or_default().into(), value.clone()));
                        }
                    }
                    Some(other) => {
                        return Err(Failure::fault(format!(
                            "{} makes no namespace",
                            other.kind()
                        )));
                    }
                    None => {}
                }
                attributes.extend(arguments.keyword.iter().cloned());
                evaluator.new_namespace(attributes)
            }
            Function::RaiseException => {
                arguments.allow(&["message"])?;
                let message = super::text::to_text(&budget, arguments.require(0, "message")?)?;
                let characters = message.as_str().unwrap_or_default().chars();
                Err(Failure::Refused(
                    characters.take(REFUSAL_CHARACTERS).collect(),
                ))
            }
            Function::StrftimeNow => {
                arguments.allow(&["format"])?;
                python::strftime_now(&budget, arguments.require_text(0, "format")?)
            }
        }
    }
}
