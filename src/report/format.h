#pragma once

#include "base/format.h"  // numbers as people read them; in base, since data and memory are told of too
