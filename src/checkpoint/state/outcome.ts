import { type ErrorJson, ShardlabError } from '../../core/errors';

/** What a rank could not do, as it travels; null where all went well. */
export type Outcome = ErrorJson | null;

/** An error as it travels. */
export function outcomeOf(error: unknown): ErrorJson {
  if (error instanceof ShardlabError) return error.toJSON();
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code: 'INTERNAL', message };
}
