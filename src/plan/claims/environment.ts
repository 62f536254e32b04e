import { nearest } from '../../config/nearest';
import { ConfigError } from '../../core/errors';
import { STATED_BY_ACCELERATE_MULTINODE } from './accelerate-multinode/environment';
import { DOCUMENTS, type DocumentName } from './claim';
import { STATED_BY_FSDP_GUIDE } from './fsdp-guide/environment';
import { STATED_BY_FSDP_MEGATRON_SWIFT } from './fsdp-megatron-swift/environment';
import type { StatedPart } from './stated-part';
import { STATED_BY_WAN_DEEPSPEED_ZERO3 } from './wan-deepspeed-zero3/environment';
import { STATED_BY_WAN22_FSDP } from './wan22-fsdp/environment';

/** The environment that each document states, in the order of the document. */
export const STATED_ENVIRONMENTS: Readonly<Record<DocumentName, readonly StatedPart[]>> = {
  'wan22-fsdp': STATED_BY_WAN22_FSDP,
  'fsdp-guide': STATED_BY_FSDP_GUIDE,
  'wan-deepspeed-zero3': STATED_BY_WAN_DEEPSPEED_ZERO3,
  'accelerate-multinode': STATED_BY_ACCELERATE_MULTINODE,
  'fsdp-megatron-swift': STATED_BY_FSDP_MEGATRON_SWIFT,
};

/** Returns the document with an id. Throws: CONFIG with the nearest id if there is none. */
export function documentNamed(id: string): DocumentName {
  const names = Object.keys(DOCUMENTS) as DocumentName[]; // the keys are the type's
  const found = names.find((name) => name === id);
  if (found !== undefined) return found;
  const close = nearest(id, names) ?? names.find((name) => id !== '' && name.includes(id.toLowerCase()));
  throw new ConfigError(
    `no document is called '${id}'${close === undefined ? '.' : `; did you mean '${close}'?`} There are ${names.join(', ')}`,
    { id },
  );
}
