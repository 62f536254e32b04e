import { z } from 'zod';
import { wordsOfIssues } from '../../../config';
import { parseJson } from '../../../core';
import { fileError } from './file-system';
import { STORED_DTYPES } from './stored-dtypes';

/** An index that names each tensor's file; unknown keys remain. Source: Hugging Face's model.safetensors.index.json. */
const wholeIndexSchema = z.looseObject({
  metadata: z.looseObject({ total_size: z.number().optional() }).optional(),
  weight_map: z.record(z.string(), z.string()),
});
export type WholeIndex = z.output<typeof wholeIndexSchema>;

const sliceSchema = z.strictObject({
  file: z.string(),
  /** Name of the tensor in the file. */
  tensor: z.string(),
  /** The index, in the whole flattened array, of the slice's first element. */
  start: z.int().min(0),
  length: z.int().min(0),
});
const slicedArraySchema = z.strictObject({
  dtype: z.enum(STORED_DTYPES),
  shape: z.array(z.int().min(0)),
  slices: z.array(sliceSchema),
});

/**
 * The index of a save in which each rank wrote its own file. It names, for each slice of an array, the file and tensor with
 * the slice's elements. There is no weight_map, because no file has a whole array.
 */
const slicedIndexSchema = z.strictObject({
  metadata: z.strictObject({ total_size: z.number(), state_dict_type: z.literal('SHARDED_STATE_DICT') }),
  slices: z.record(z.string(), slicedArraySchema),
});
export type SlicedIndex = z.output<typeof slicedIndexSchema>;
export type SlicedArray = z.output<typeof slicedArraySchema>;

/** The number of faults that an error names. */
const MOST_ISSUES = 3;

/** Parses an index of either kind. Throws: IO, with the file's name. */
export function parseIndex(text: string, file: string): WholeIndex | SlicedIndex {
  let json: unknown;
  try {
    json = parseJson(text);
  } catch (cause) {
    throw fileError(`${file} is not JSON: ${String(cause)}; copy it again`, { file });
  }
  const isSliced = typeof json === 'object' && json !== null && 'slices' in json;
  const parsed = (isSliced ? slicedIndexSchema : wholeIndexSchema).safeParse(json);
  if (parsed.success) return parsed.data;
  throw fileError(
    `${file} is not an index: ${wordsOfIssues(parsed.error.issues.slice(0, MOST_ISSUES))}; copy it again`,
    { file },
  );
}

/** Whether the index belongs to a save in which ranks wrote slices. */
export function isSliced(index: WholeIndex | SlicedIndex): index is SlicedIndex {
  return 'slices' in index;
}

/** Returns an index as JSON in Hugging Face's format: sorted keys, an indentation of two spaces, and a newline at the end. */
export function indexText(index: WholeIndex | SlicedIndex): string {
  return `${JSON.stringify(sorted(index), null, 2)}\n`;
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, each]) => [key, sorted(each)]));
}
