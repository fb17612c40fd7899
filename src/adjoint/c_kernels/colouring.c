/* Greedy colourings of graphs, for sparse derivatives. A graph is given by the starts and the ends of its edges,
   vertex after vertex. Colours count from 1; 0: not coloured. */

/* What follows is written once for each REAL: float, double. */

/* Colours for columns such that no row has two of one colour. `rows` are the rows of each column, `columns` the columns
   of each row. mark: one number for each colour, 0. sizes: how many columns. */
int columns_REAL(const REAL *sizes, const REAL *order, const REAL *row_starts, const REAL *rows,
                 const REAL *column_starts, const REAL *columns, REAL *mark, REAL *colours) {
  for (REAL k = 0; k < sizes[0]; k++) {
    const REAL v = order[k];
    for (REAL i = row_starts[v]; i < row_starts[v + 1]; i++) {
      const REAL row = rows[i];
      for (REAL j = column_starts[row]; j < column_starts[row + 1]; j++) mark[colours[columns[j]]] = v + 1;
    }
    REAL colour = 1;
    while (mark[colour] == v + 1) colour++;
    colours[v] = colour;
  }
  return 0;
}

/* Colours for vertices such that neighbours differ, and each path of four vertices has three colours: each edge is then
   known from the sum of the columns of one colour, in one of its two rows. No vertex is its own neighbour. */
int star_REAL(const REAL *sizes, const REAL *order, const REAL *starts, const REAL *ends, REAL *mark, REAL *colours) {
  for (REAL k = 0; k < sizes[0]; k++) {
    const REAL v = order[k];
    for (REAL a = starts[v]; a < starts[v + 1]; a++) {
      const REAL w = ends[a], middle = colours[w];
      mark[middle] = v + 1;
      for (REAL b = starts[w]; b < starts[w + 1]; b++) {
        const REAL x = ends[b], far = colours[x];
        if (x == v || far == 0 || mark[far] == v + 1) continue;
        if (middle == 0) mark[far] = v + 1;
        else
          for (REAL c = starts[x]; c < starts[x + 1]; c++)
            if (ends[c] != w && colours[ends[c]] == middle) {
              mark[far] = v + 1;
              break;
            }
      }
    }
    REAL colour = 1;
    while (mark[colour] == v + 1) colour++;
    colours[v] = colour;
  }
  return 0;
}

/* The order in which each vertex has the fewest neighbours among those before it: the last one is a vertex of smallest
   degree, and so on without it. `first`, one more than there are degrees, `next`, `before`: lists of vertices by degree,
   -1: none; first is -1. degree is lost. */
int smallest_last_REAL(const REAL *sizes, const REAL *starts, const REAL *ends, REAL *degree, REAL *first, REAL *next,
                       REAL *before, REAL *order) {
  const REAL count = sizes[0];
  for (REAL v = 0; v < count; v++) {
    const REAL head = first[degree[v]];
    next[v] = head, before[v] = -1;
    if (head >= 0) before[head] = v;
    first[degree[v]] = v;
  }
  REAL least = 0;
  for (REAL k = count - 1; k >= 0; k--) {
    while (first[least] < 0) least++;
    const REAL v = first[least];
    order[k] = v;
    first[least] = next[v];
    if (next[v] >= 0) before[next[v]] = -1;
    degree[v] = -1;
    for (REAL a = starts[v]; a < starts[v + 1]; a++) {
      const REAL w = ends[a], had = degree[w];
      if (had <= 0) continue;
      if (before[w] >= 0) next[before[w]] = next[w];
      else first[had] = next[w];
      if (next[w] >= 0) before[next[w]] = before[w];
      const REAL head = first[had - 1];
      next[w] = head, before[w] = -1, degree[w] = had - 1;
      if (head >= 0) before[head] = w;
      first[had - 1] = w;
      if (had - 1 < least) least = had - 1;
    }
  }
  return 0;
}
