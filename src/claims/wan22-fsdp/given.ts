import { modelOf, shapeOf } from '../../planner';
import { claimOf } from '../claim';

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

/** The model with two experts as it was published. */
export const PUBLISHED = shapeOf(modelOf('wan2.2-a14b'));
