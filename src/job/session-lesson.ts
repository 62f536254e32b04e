import { ANSWERS } from '../figures/answers';
import { createLesson, type Lesson } from '../figures/lesson';

const LESSON: unique symbol = Symbol.for('shardlab.lesson');

interface LessonHost {
  [LESSON]?: Lesson | undefined;
}

/** The guesses and exercises of this process: one notebook's session. Figures of runs tell what was guessed. */
export function sessionLesson(): Lesson {
  // globalThis has no index type for symbols; the key is ours alone.
  const host = globalThis as LessonHost;
  host[LESSON] ??= createLesson(ANSWERS);
  return host[LESSON];
}
