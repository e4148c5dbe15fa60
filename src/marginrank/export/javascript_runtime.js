// Score documents with a model that marginrank exported; this file needs nothing but JavaScript.
"use strict";

const missing = (x) => Number.isNaN(x);
const sigmoid = (x) => 0.5 * (1 + Math.tanh(0.5 * x));
const sum = (values) => values.reduce((total, x) => total + x, 0);
const dot = (x, z) => { let total = 0; for (let i = 0; i < x.length; i++) total += x[i] * z[i]; return total; };

/**
 * Return the score of each document, higher is better; compare scores within a query only.
 * @param documents arrays of values in the order of MODEL.features, or objects by their names; null is a missing value,
 *   and true and false are 1 and 0
 * @param group how many consecutive documents belong to each query; by default all belong to one
 */
function score(documents, group) {
  let rows = documents.map(toRow);
  if (group && sum(group) !== rows.length) {
    throw new Error(`group has ${sum(group)} documents for ${rows.length}; give the number of each query`);
  }
  if (MODEL.raw_fill !== null) rows = rows.map((row) => row.map((x, i) => (missing(x) ? MODEL.raw_fill[i] : x)));
  const scaling = MODEL.scaling;
  if (scaling.kind === "standard") {
    rows = rows.map((row) => row.map((x, i) => standard(x, scaling.mean[i], scaling.scale[i])));
  } else if (scaling.kind !== "none") {
    rows = byQuery(rows, group || [rows.length], SCALINGS[scaling.kind]);
  }
  return rows.map((row) => sum(MODEL.terms.map((term) => TERMS[term.kind](term, row))));
}

/** Return the positions of the documents of one query, best first. */
function rank(documents, k) {
  const scores = score(documents);
  return scores.map((_, i) => i).sort((a, b) => scores[b] - scores[a] || a - b).slice(0, k);
}

function toRow(document, number) {
  const names = MODEL.features;
  const values = Array.isArray(document) ? document : names.map((name) => document[name]);
  if (values.length !== names.length) {
    throw new Error(`document ${number} has ${values.length} values for ${names.length} features`);
  }
  return values.map((x, i) => toNumber(x, `document ${number}: feature '${names[i]}'`));
}

function toNumber(x, place) {
  if (x === undefined) throw new Error(`${place} is absent; give null if it is missing`);
  if (x !== null && typeof x !== "number" && typeof x !== "boolean") throw new Error(`${place} is no number; give one`);
  const value = x === null ? NaN : Number(x);
  if (Math.abs(value) === Infinity) throw new Error(`${place} is infinite; replace it`);
  if (missing(value) && !MODEL.takes_missing) {
    throw new Error(`${place} is missing; fill it, as this model takes no missing values`);
  }
  return value;
}

function standard(x, mean, scale) {
  if (missing(x)) return x;
  return scale > 0 ? (x - mean) / scale : 0;
}

function byQuery(rows, group, scale) {
  const out = rows.map((row) => row.slice());
  let start = 0;
  for (const size of group) {
    for (let feature = 0; feature < MODEL.features.length; feature++) {
      const column = scale(rows.slice(start, start + size).map((row) => row[feature]));
      column.forEach((x, i) => { out[start + i][feature] = x; });
    }
    start += size;
  }
  return out;
}

function unit(column) {
  const known = column.filter((x) => !missing(x));
  const low = Math.min(...known);
  const spread = Math.max(...known) - low;
  return column.map((x) => (x - low) / (spread > 0 ? spread : 1));
}

function variance(raw) {
  const column = unit(raw);
  const known = column.filter((x) => !missing(x));
  const mean = sum(known) / known.length;
  const spread = Math.sqrt(sum(known.map((x) => (x - mean) ** 2)) / known.length);
  return column.map((x) => (x - mean) / (spread > 0 ? spread : 1));
}

function percentile(column) {
  const known = column.filter((x) => !missing(x));
  return column.map((x) => {
    if (missing(x)) return x;
    const below = known.filter((y) => y < x).length;
    const equal = known.filter((y) => y === x).length;
    return (below + 0.5 * equal) / known.length;
  });
}

function linear(term, row) {
  let total = 0;
  let values = row;
  if (term.fill !== null) {
    for (const [feature, weight] of term.flags) if (missing(row[feature])) total += weight;
    values = row.map((x, i) => (missing(x) ? term.fill[i] : x));
  }
  return total + dot(values, term.weights);
}

function adaptive(term, row) {
  const context = term.context.map((at, i) => {
    return term.width[i] > 0 ? Math.min(Math.max((row[at] - term.low[i]) / term.width[i], 0), 1) : 0;
  });
  return dot(row, term.weights.map((weight, i) => weight + dot(context, term.changes[i])));
}

function additive(term, row) {
  return sum(term.curves.map((curve, i) => curveAt(curve, row[i])));
}

function curveAt(curve, x) {
  const { thresholds, values, start } = curve;
  if (missing(x)) return curve.missing;
  let low = 0;
  let high = thresholds.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x > thresholds[middle]) low = middle + 1;
    else high = middle;
  }
  if (start === null || low === thresholds.length) return values[low];
  const before = low === 0 ? start : thresholds[low - 1];
  if (x <= before) return values[low];
  return values[low] + ((x - before) / (thresholds[low] - before)) * (values[low + 1] - values[low]);
}

function trees(term, row) {
  const outputs = new Array(Math.max(1, term.grades.length)).fill(0);
  term.trees.forEach((tree, number) => {
    let node = 0;
    while (tree.feature[node] >= 0) {
      const x = row[tree.feature[node]];
      const left = missing(x) ? tree.missing_left[node] : x <= tree.threshold[node];
      node = left ? tree.left[node] : tree.right[node];
    }
    outputs[term.outputs[number]] += tree.value[node];
  });
  if (term.grades.length === 0) return outputs[0];
  const most = Math.max(...outputs);
  const shares = outputs.map((x) => Math.exp(x - most));
  return dot(shares, term.grades) / sum(shares);
}

function neural(term, row) {
  return term.layers.reduce((values, layer, number) => {
    const inputs = number ? values.map(ACTIVATIONS[term.activation]) : values;
    return layer.biases.map((bias, i) => dot(inputs, layer.weights[i]) + bias);
  }, row)[0];
}

function kernel(term, row) {
  return sum(term.documents.map((z, i) => term.coefficients[i] * KERNELS[term.kernel](row, z, ...term.parameters)));
}

const SCALINGS = { "query-minmax": unit, "query-standard": variance, "query-percentile": percentile };
const TERMS = { linear, adaptive, additive, trees, neural, kernel };
const KERNELS = {
  rbf: (x, z, gamma) => Math.exp(-gamma * sum(x.map((a, i) => (a - z[i]) ** 2))),
  poly: (x, z, gamma, degree, coef0) => (gamma * dot(x, z) + coef0) ** degree,
};
const ACTIVATIONS = {
  relu: (x) => Math.max(x, 0),
  tanh: Math.tanh,
  sigmoid,
  elu: (x) => (x > 0 ? x : Math.expm1(x)),
  silu: (x) => x * sigmoid(x),
};
const MODEL = {};

if (typeof module !== "undefined") module.exports = { score, rank, MODEL };
