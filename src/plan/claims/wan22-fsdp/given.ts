import { shapeOf } from '../../model-shape';
import { modelOf } from '../../models';
import { claimOf, documentedNumber } from '../claim';

/** The document's description of its run, from claims/wan22-fsdp.json. */
export const WAN_GIVEN = claimOf('wan.mem.params').given as {
  readonly params: number;
  readonly layers: number;
  readonly gpus: number;
  readonly gpu: 'A100-80G';
  readonly batch: number;
  readonly grad_accum: number;
  readonly ulysses: number;
};

/** The four parts of the document's memory table, GB per GPU. */
export const WAN_TABLE = {
  params: documentedNumber('wan.mem.params'),
  optimizer: documentedNumber('wan.mem.optimizer'),
  activations: documentedNumber('wan.mem.activations'),
  temporary: documentedNumber('wan.mem.temporary'),
} as const;

/** The model with two experts as it was published. */
export const PUBLISHED = shapeOf(modelOf('wan2.2-a14b'));
