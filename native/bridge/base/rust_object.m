#import "rust_object.h"

#import "entry.h"
#import "handle.h"
#import "object.h"

@interface IronRustObject : IronObject {
 @public
  void *value;
  void (*drop)(void *value);
}
@end

@implementation IronRustObject
IRON_COUNTED(IronRustObject)

- (void)dealloc {
  drop(value);
  [super dealloc];
}
@end

void IronRustEnter(const char *function) {
  IronFoundationPrepare();
  IronErrorEnter(function);
}

iron_status IronRustReport(const char *function, iron_status status, const char *text, size_t length) {
  IronErrorEnter(function);
  return IronErrorReport(status, "%.*s", (int)(length < INT32_MAX ? length : INT32_MAX), text);
}

iron_status IronRustCreate(const char *type, void *value, void (*drop)(void *value), void **handle) {
  IRON_POOL {
    @try {
      IronRustObject *object = [[[IronRustObject alloc] init] autorelease];
      object->value = value;
      object->drop = drop;
      return IronHandleCreate(object, IronHandleKindOf(type), handle);
    } IRON_LEAVE
}

void *IronRustAcquire(const char *type, const void *handle, const char *argument, void (*keep)(void *value)) {
  IRON_POOL {
    IronRustObject *object = IronHandleAcquire(handle, IronHandleKindOf(type), argument);
    if (!object) return NULL;
    keep(object->value);
    return object->value;
  }
}

iron_status IronRustShareDevice(const void *device, const char *argument, void **own) {
  IRON_POOL {
    id object = IronHandleAcquire(device, IRON_HANDLE_DEVICE, argument);
    return object ? IronHandleCreate(object, IRON_HANDLE_DEVICE, own) : IRON_ERROR_INVALID_HANDLE;
  }
}

iron_status IronRustRetain(const char *type, const void *handle, const char *argument) {
  return IronHandleRetain(handle, IronHandleKindOf(type), argument);
}

iron_status IronRustRelease(const char *type, const void *handle, const char *argument) {
  IRON_POOL { return IronHandleRelease(handle, IronHandleKindOf(type), argument); }
}
