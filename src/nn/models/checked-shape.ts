import type { z } from 'zod';
import { issueMessage, toIssues } from '../../config/config-issue';
import { modelConflicts } from '../../config/model-conflicts';
import type { ModelConfig } from '../../config/settings/model';
import { ConfigError } from '../../core/errors';

type ShapeSchema = z.ZodObject<z.ZodRawShape & { kind: z.ZodLiteral<ModelConfig['kind']> }>;

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
  kind: ModelConfig['kind'],
  schema: S,
  sizes: object,
): z.output<S> {
  const parsed = schema.safeParse({ ...sizes, kind });
  const issues = parsed.success
    ? // ModelConfig is the union of these schemas. In a config, the sizes are within `model`.
      modelConflicts(parsed.data as ModelConfig).map((issue) => ({ ...issue, path: issue.path.slice(1) }))
    : toIssues(parsed.error.issues, sizes, { '': Object.keys(schema.shape) });
  if (parsed.success && issues.length === 0) return parsed.data;
  throw new ConfigError(issues.map((issue) => `${kind}: ${issueMessage(issue)}`).join('\n'));
}
