/* A call of a compiled program as a built-in function: tensors and arrays in, tensors out.

   It needs no headers of Python or NumPy: their functions come in a table, and the offsets of object
   fields were found by searching objects (fast_call.py). A plan tells how to call a program:

     block, run, status, acquire, release, declined, inputs, results, steps, busy, short,
     for each input four times its slot plus its kind,
     for each result its slot, dtype, dimensions, a function that returns it or 0, sizes,
     for each step that builds the output a kind and a number.

   A short program runs while Python's other threads wait, so it needs no lock unless another thread
   is running it. No Python runs between the filling of the block and the end of the program. */

typedef struct object object;
typedef long word;

enum { BLOCK, RUN, STATUS, ACQUIRE, RELEASE, DECLINED, INPUTS, RESULTS, STEPS, BUSY, SHORT, FIRST };
enum { LEAF, TUPLE, LIST };
enum { TENSOR, ARRAY, EITHER }; /* of an input */

static struct {
  object *(*array)(object *, object *, int, word *, word *, void *, int, object *);
  object *(*instance)(object *, object *, object *);
  object *(*call)(object *);
  object *(*tuple)(word);
  int (*set_tuple)(object *, word, object *);
  object *(*list)(word);
  int (*set_list)(object *, word, object *);
  void (*hold)(object *);
  void (*drop)(object *);
  void *(*release_threads)(void);
  void (*keep_threads)(void *);
  object *tensor_type, *array_type, *none, *counter, *nothing;
  word type, buffer, value, edge, home, extra, version; /* where fields are, in bytes */
} python;

#define FIELD(thing, place) (*(object **)((char *)(thing) + (place)))

static object *held(object *thing) {
  python.hold(thing);
  return thing;
}

/* the array of a tensor without history, or an array of NumPy's; nothing of anything else */
static object *array_of(object *given, int kind) {
  object *type = FIELD(given, python.type);
  if (type == python.array_type) return kind != TENSOR ? given : 0;
  if (kind == ARRAY) return 0;
  if (type != python.tensor_type || FIELD(given, python.edge) != python.none ||
      FIELD(given, python.home) != python.none)
    return 0;
  given = FIELD(given, python.value);
  return given && FIELD(given, python.type) == python.array_type ? given : 0;
}

static object *tensor_of(object *array) {
  object *made = python.instance(python.tensor_type, python.nothing, 0);
  if (!made) return python.drop(array), (object *)0;
  FIELD(made, python.value) = array;
  FIELD(made, python.edge) = held(python.none);
  FIELD(made, python.home) = held(python.none);
  FIELD(made, python.extra) = held(python.none);
  FIELD(made, python.version) = held(python.counter);
  return made;
}

/* whether a function without arguments could be called */
static int called(object *function) {
  object *result = python.call(function);
  if (result) python.drop(result);
  return result != 0;
}

/* an array for each result; 0 if there is no memory */
static int make_results(const word *plan, const word *results, object **made) {
  for (word k = 0; k < plan[RESULTS]; k++) {
    const word dimensions = results[2];
    object *dtype = (object *)results[1], *pooled = (object *)results[3];
    made[k] = pooled ? python.call(pooled)
                     : python.array(python.array_type, held(dtype), dimensions,
                                    (word *)results + 4, 0, 0, 0, 0);
    if (!made[k]) return 0;
    results += 4 + dimensions;
  }
  return 1;
}

static void fill_block(const word *plan, object **arrays, object **made) {
  object **block = (object **)plan[BLOCK];
  const word *slots = plan + FIRST, *results = slots + plan[INPUTS];
  for (word k = 0; k < plan[INPUTS]; k++) block[slots[k] / 4] = arrays[k];
  for (word k = 0; k < plan[RESULTS]; results += 4 + results[2], k++) block[results[0]] = made[k];
}

/* whether the program took the arrays, and found nothing wrong in them */
static int ran(const word *plan) {
  int *status = (int *)plan[STATUS];
  const int declined = ((int (*)(void **))plan[RUN])((void **)plan[BLOCK]), wrong = *status;
  *status = 0;
  return !declined && !wrong;
}

/* 1 if it ran, 0 if not, -1 if Python has raised: never while the lock is held, so that results are
   made before */
static int run(const word *plan, object **arrays, object **made) {
  int *busy = (int *)plan[BUSY], done = 0;
  if (!make_results(plan, plan + FIRST + plan[INPUTS], made)) return -1;
  if (plan[SHORT] && !*busy) {
    fill_block(plan, arrays, made);
    return ran(plan);
  }
  if (!called((object *)plan[ACQUIRE])) return -1;
  if (!*busy) {
    *busy = 1;
    fill_block(plan, arrays, made);
    void *state = python.release_threads();
    done = ran(plan);
    python.keep_threads(state);
    *busy = 0;
  }
  return called((object *)plan[RELEASE]) ? done : -1;
}

/* tuples and lists of tensors, from the innermost out; takes the arrays over */
static object *built(const word *steps, word count, object **made) {
  object *stack[count];
  word top = 0;
  for (word k = 0; k < count; k++) {
    const word kind = steps[2 * k], number = steps[2 * k + 1];
    object *found;
    if (kind == LEAF) {
      found = tensor_of(made[number]);
      made[number] = 0;
    } else {
      found = kind == TUPLE ? python.tuple(number) : python.list(number);
      if (found) {
        top -= number;
        for (word i = 0; i < number; i++)
          kind == TUPLE ? python.set_tuple(found, i, stack[top + i])
                        : python.set_list(found, i, stack[top + i]);
      }
    }
    if (!found) {
      while (top) python.drop(stack[--top]);
      return 0;
    }
    stack[top++] = found;
  }
  return stack[0];
}

static object *call(object *self, object *const *given, word count) {
  const word *plan = (const word *)FIELD(self, python.buffer);
  object *declined = (object *)plan[DECLINED], *result = 0;
  if (count != plan[INPUTS]) return held(declined);
  object *arrays[count + 1], *made[plan[RESULTS] + 1];
  for (word k = 0; k < count; k++) {
    arrays[k] = array_of(given[k], plan[FIRST + k] & 3);
    if (!arrays[k]) return held(declined);
  }
  for (word k = 0; k < count; k++) python.hold(arrays[k]); /* another thread may write to a tensor */
  for (word k = 0; k <= plan[RESULTS]; k++) made[k] = 0;
  const int done = run(plan, arrays, made);
  if (done > 0) result = built((const word *)plan[STEPS] + 1, *(const word *)plan[STEPS], made);
  if (done == 0) result = held(declined);
  for (word k = 0; k < plan[RESULTS]; k++)
    if (made[k]) python.drop(made[k]);
  for (word k = 0; k < count; k++) python.drop(arrays[k]);
  return result;
}

/* As in Python's header, for a function of a fast call. */
struct { const char *name; void *function; int flags; const char *text; } method = {
  "compiled", (void *)call, 0x80, 0
};

void prepare(const void *table) { __builtin_memcpy(&python, table, sizeof python); }
