import { testContext } from './context-suite';

for (const world of [2, 3]) testContext(world);
