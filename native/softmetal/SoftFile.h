/* Files that this device writes and reads. Foundation's own ways print what goes wrong. */
#ifndef SOFT_FILE_H
#define SOFT_FILE_H

#import <Foundation/Foundation.h>

/* The file is there as a whole or stays as it was. NO: it cannot be written. */
BOOL soft_file_write(NSString *path, NSString *text);

/* The text of a regular file, autoreleased. nil: it cannot be read, has more than 16 MiB, or is no UTF-8. */
NSString *soft_file_read(NSString *path);

#endif
