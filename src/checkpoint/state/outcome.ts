import { type ErrorJson, ShardlabError } from '../../core/errors';

/** A rank's error in the form for messages; null on success. */
export type Outcome = ErrorJson | null;

/** An error in the form for messages. */
export function outcomeOf(error: unknown): ErrorJson {
  if (error instanceof ShardlabError) return error.toJSON();
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code: 'INTERNAL', message };
}
