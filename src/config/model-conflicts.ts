import type { DitConfig } from './families/kinds';
import { routerIssues } from './router-options';
import type { ConfigIssue } from './setting';
import type { BuiltInModel } from './settings/model';

/** Finds sizes of a model that contradict each other; each issue has both values and says what to change. */
export function modelConflicts(shape: BuiltInModel): ConfigIssue[] {
  const heads = headConflicts(shape);
  if (heads !== null) return heads;
  if (shape.kind === 'moe')
    return routerIssues(shape, shape.experts).flatMap(({ option, message }) => wrong(option, message));
  return shape.kind === 'dit' ? gridConflicts(shape) : [];
}

/** Returns what is wrong with the number of heads; null if nothing is wrong. */
function headConflicts(shape: BuiltInModel): ConfigIssue[] | null {
  const { heads } = shape;
  const name = shape.kind === 't5-encoder' && shape.attnDim !== undefined ? 'attnDim' : 'dim';
  const width = shape.kind === 't5-encoder' ? (shape.attnDim ?? shape.dim) : shape.dim;
  if (width % heads !== 0) {
    return wrong('heads', `${name} ${width} is not divisible by heads ${heads}; change one of them`);
  }
  const isRotary = shape.kind === 'llama' || shape.kind === 'dit';
  if (isRotary && (width / heads) % 2 !== 0) {
    return wrong(
      'heads',
      `dim ${width} / heads ${heads} is ${width / heads}; it must be even, because rotary position embeddings rotate pairs`,
    );
  }
  if (shape.kind === 'llama' && heads % (shape.kvHeads ?? heads) !== 0) {
    return wrong(
      'kvHeads',
      `heads ${heads} is not divisible by kvHeads ${shape.kvHeads}; give a divisor of ${heads}`,
    );
  }
  return null;
}

function gridConflicts(shape: DitConfig): ConfigIssue[] {
  const { latent, patch, inChannels, outChannels, freqDim, audioLayers, layers } = shape;
  const beyond = audioLayers.find((index) => index >= layers);
  if (beyond !== undefined) {
    return wrong(
      'audioLayers',
      `there is no block ${beyond}: the blocks are 0 to ${layers - 1}; give other indices, or more layers`,
    );
  }
  const axis = latent.findIndex((extent, i) => extent % (patch[i] ?? 1) !== 0);
  if (axis >= 0) {
    return wrong(
      'latent',
      `[${latent}] is not divisible by patch [${patch}] (${latent[axis]} by ${patch[axis]}); change one of them`,
    );
  }
  if (inChannels < outChannels) {
    return wrong(
      'inChannels',
      `${inChannels} is less than outChannels ${outChannels}: the input includes the noised video; give at least ${outChannels}`,
    );
  }
  if (freqDim % 2 !== 0)
    return wrong(
      'freqDim',
      `${freqDim} is odd, but one half of the embedding is cosines, the other half sines; give an even number`,
    );
  return [];
}

function wrong(key: string, message: string): ConfigIssue[] {
  return [{ path: ['model', key], message }];
}
