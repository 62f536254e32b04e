import type { CallHeader } from './call';
import type { SharedLink } from './link-clock';
import type { GroupIdentity } from './mismatch';
import type { CallLengths } from './record';

/** A collective whose data was copied into memory that main and comm thread share: float32 or int32, by list. */
export interface StagedCall {
  readonly header: CallHeader;
  readonly lengths: CallLengths;
  readonly inputs: readonly SharedArrayBuffer[];
  readonly outputs: readonly SharedArrayBuffer[];
  /** Where exchange and subgroup put every rank's value. */
  readonly values: SharedArrayBuffer;
}

/** Main thread → zeromq thread. */
export type ZeromqRequest =
  | { readonly kind: 'group'; readonly id: number; readonly path: string; readonly identity: GroupIdentity }
  | { readonly kind: 'call'; readonly group: number; readonly ticket: number; readonly call: StagedCall }
  | { readonly kind: 'close' };

/** What the zeromq thread's script gets. */
export interface ZeromqSetup {
  readonly rank: number;
  readonly addresses: readonly string[];
  readonly token: string;
  readonly control: SharedArrayBuffer;
  readonly link: SharedLink | undefined;
  readonly extra: unknown;
}
