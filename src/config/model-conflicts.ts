import { kindOf } from './families/families';
import type { BuiltInModel } from './families/kinds';
import { wrongSize } from './families/model-kind';
import type { ConfigIssue } from './setting';

/** Finds sizes of a model that contradict each other; each issue has both values and says what to change. */
export function modelConflicts(shape: BuiltInModel): readonly ConfigIssue[] {
  const heads = headConflict(shape);
  return heads === null ? (kindOf(shape)?.conflictsOf?.(shape) ?? []) : [heads];
}

/** Returns what is wrong with the number of heads; null if nothing is wrong. */
function headConflict(shape: BuiltInModel): ConfigIssue | null {
  const { heads } = shape;
  const attnDim = 'attnDim' in shape ? shape.attnDim : undefined;
  const width = attnDim ?? shape.dim;
  if (width % heads !== 0) {
    const name = attnDim === undefined ? 'dim' : 'attnDim';
    return wrongSize('heads', `${name} ${width} is not divisible by heads ${heads}; change one of them`);
  }
  if (kindOf(shape)?.isRotary && (width / heads) % 2 !== 0) {
    return wrongSize(
      'heads',
      `dim ${width} / heads ${heads} is ${width / heads}; it must be even, because rotary position embeddings rotate pairs`,
    );
  }
  const kvHeads = ('kvHeads' in shape ? shape.kvHeads : undefined) ?? heads;
  return heads % kvHeads === 0
    ? null
    : wrongSize(
        'kvHeads',
        `heads ${heads} is not divisible by kvHeads ${kvHeads}; give a divisor of ${heads}`,
      );
}
