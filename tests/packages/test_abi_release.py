"""What `tools/check-abi` does with a release that has no tag: builds it, as it would be."""
# SPDX-License-Identifier: Apache-2.0
import unittest

from released import Release


class Built(Release):
    def test_a_release_without_its_tag(self):
        """Its library is built, and compared with that of this build."""
        self.release()
        commit = self.commit()
        status, said = self.check()
        self.assertEqual(status, 0, said)
        self.assertIn("compared with 0.9.9, commit " + commit, said)
        self.assertIn("has all that it had", said)


unittest.main(verbosity=2)
