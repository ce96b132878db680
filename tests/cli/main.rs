//! The command line, the examples, and what the repository says about itself: links of the guides, the modules, how the
//! build finds GNUstep. Programs are run as a user runs them.

mod architecture;
mod build_discovery;
mod chat_terminal;
mod command_line;
mod docs_links;
mod doctor;
mod examples;
mod finetune;
#[cfg(all(feature = "nvidia", target_os = "linux"))]
mod gpus;
mod metal;
mod newcomer;
#[cfg(feature = "pull")]
mod pull;
