/* Foundation without the data of its protocols, for files none of whose classes adopts one (build/protocols.rs). */
#ifdef __OBJC__
#pragma clang attribute push(__attribute__((objc_non_runtime_protocol)), apply_to = objc_protocol)
#import <Foundation/Foundation.h>
#pragma clang attribute pop
#endif
