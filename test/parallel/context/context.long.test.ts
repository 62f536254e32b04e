import { testContext } from './context-suite';

testContext(2);
