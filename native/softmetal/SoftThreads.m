/* The executor's compute threads, as the bridge sets them. */
#import "SoftError.h"
#import "softmetal.h"

static SoftMetalChange change(const soft_executor *executor, soft_outcome outcome, char *text, NSString **reason) {
  if (outcome == SOFT_OK) return SoftMetalChanged;
  *reason = soft_executor_text(executor, text, @"the CPU executor did not say why");
  switch (outcome) {
  case SOFT_INVALID: return SoftMetalChangeRefused;
  case SOFT_UNSUPPORTED: return SoftMetalChangeUnsupported;
  default: return SoftMetalChangeFailed;
  }
}

uint32_t SoftMetalThreads(void) {
  const soft_executor *executor = softmetal_cpu_executor();
  return executor ? executor->threads() : 1;
}

SoftMetalChange SoftMetalSetThreads(uint32_t threads, NSString **reason) {
  const soft_executor *executor = softmetal_cpu_executor();
  char *text = NULL;
  return change(executor, executor ? executor->set_threads(threads, &text) : SOFT_INTERNAL, text, reason);
}

SoftMetalChange SoftMetalPinThreads(const uint32_t *processors, NSUInteger count, NSString **reason) {
  const soft_executor *executor = softmetal_cpu_executor();
  char *text = NULL;
  return change(executor, executor ? executor->pin_threads(processors, count, &text) : SOFT_INTERNAL, text, reason);
}

uint64_t SoftMetalPatience(void) {
  const soft_executor *executor = softmetal_cpu_executor();
  return executor ? executor->patience() : 0;
}
