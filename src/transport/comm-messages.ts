import type { ErrorJson } from '../core/errors';
import type { Seconds } from '../core/units';
import type { GroupAttachment } from './group-memory';
import type { SpanCall } from './spans';

/** Main thread → comm thread. */
export type CommRequest =
  | { readonly kind: 'group'; readonly id: number; readonly attachment: GroupAttachment }
  | {
      readonly kind: 'call';
      readonly group: number;
      readonly ticket: number;
      readonly call: SpanCall;
      readonly posted: Seconds;
    }
  | { readonly kind: 'close' };

/** In place of a ticket: the thread itself has ended. */
export const WHOLE_THREAD = -1;

/** Comm thread → main thread: why a call failed. It is sent before the call's ticket is marked. */
export interface CommFailure {
  /** WHOLE_THREAD if all calls failed. */
  readonly ticket: number;
  readonly error: ErrorJson;
}
