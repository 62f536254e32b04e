import type { z } from 'zod';
import {
  type BuiltInModel,
  fields,
  index,
  issuesMessage,
  modelConflicts,
  requireKind,
  requirePlain,
  toIssues,
} from '../../config';
import { ConfigError } from '../../core';

type ShapeSchema = z.ZodObject<z.ZodRawShape & { kind: z.ZodLiteral<BuiltInModel['kind']> }>;

/** The sizes of a model, and the seed of its initial values. */
export type ShapeOptions<S extends z.ZodType> = Omit<z.input<S>, 'kind'> & {
  /** Default 0. */
  readonly seed?: number;
};

/**
 * Checks sizes and adds defaults. Throws: CONFIG; the error names all sizes that are missing, wrong or unknown, or that
 * contradict each other.
 */
export function checkedShape<S extends ShapeSchema>(
  kind: BuiltInModel['kind'],
  schema: S,
  argument: object & { readonly seed?: number },
): z.output<S> {
  requireKind(kind, 'the argument', argument, fields);
  requirePlain(argument);
  const { seed = 0, ...sizes } = argument;
  requireKind(kind, 'seed', seed, index);
  const parsed = schema.safeParse({ ...sizes, kind });
  const issues = parsed.success
    ? // BuiltInModel is the union of these schemas. In a config, the sizes are within `model`.
      modelConflicts(parsed.data as BuiltInModel).map((issue) => ({ ...issue, path: issue.path.slice(1) }))
    : toIssues(parsed.error.issues, sizes, { '': Object.keys(schema.shape) });
  if (parsed.success && issues.length === 0) return parsed.data;
  throw new ConfigError(issuesMessage(issues, `${kind}: `));
}
