/* Files that this device writes. */
#ifndef SOFT_FILE_H
#define SOFT_FILE_H

#import <Foundation/Foundation.h>

/* The file is there as a whole or stays as it was. NO: it cannot be written. Foundation's own way prints why. */
BOOL soft_file_write(NSString *path, NSString *text);

#endif
