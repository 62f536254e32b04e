import type { ErrorJson } from '../core/errors';
import type { SpanCall } from './collectives';
import type { GroupAttachment } from './group-memory';

/** Main thread → comm thread. */
export type CommRequest =
  | { readonly kind: 'group'; readonly id: number; readonly attachment: GroupAttachment }
  | { readonly kind: 'call'; readonly group: number; readonly ticket: number; readonly call: SpanCall }
  | { readonly kind: 'close' };

/** Comm thread → main thread: why a call failed. It is sent before its ticket is marked. */
export interface CommFailure {
  readonly ticket: number;
  readonly error: ErrorJson;
}
