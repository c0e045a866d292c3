"""What every benchmark of the suite shares."""
