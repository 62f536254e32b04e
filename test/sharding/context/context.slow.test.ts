import { testContext } from './context-suite';

// Groups of two ranks are also parts of the world of four; context.long has worlds of two and three.
testContext(4);
