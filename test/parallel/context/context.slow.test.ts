import { testContext } from './context-suite';

// Groups of two ranks are also parts of the world of four; context.long has a world of two.
for (const world of [3, 4]) testContext(world);
