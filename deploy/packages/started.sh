# One that runs is started again, with the new program. A first installation starts nothing: there
# are no settings yet.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart @NAME@.service '@NAME@@*.service' || :
fi
